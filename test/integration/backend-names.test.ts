/** A backend with a host name: its endpoints are the current addresses of the name. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { backendRef, gatewayManifest, manifests, routeManifest, startGateway } from "../support/gateway.ts";
import type { ResolvedName } from "@gatewayproxy/runtime/host-names";

/** Starts a server on each address, all on one port; its responses contain the address of the connection. */
async function startServers(...hosts: readonly string[]) {
  let port = 0;
  const connections = new Map<string, number>();
  for (const host of hosts) {
    const server = createServer((_request, response) => response.end(host));
    // Longer than the time to live of the addresses.
    server.keepAliveTimeout = 600_000;
    server.on("connection", () => connections.set(host, (connections.get(host) ?? 0) + 1));
    await new Promise<void>((resolve) => server.listen(port, host, resolve));
    // A listening TCP server has such an address.
    port = (server.address() as AddressInfo).port;
    onTestFinished(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
  }
  return { port, connections };
}

function serve(port: number, resolveName: () => Promise<ResolvedName>) {
  const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: b, namespace: default }
spec: { static: { host: backend.example, port: ${port} } }
`;
  let draw = 0;
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const random = (): number => (draw = (draw + 0.37) % 1);
  return startGateway(manifests(gatewayManifest(), backend, route), { resolveName, random });
}

async function reached(url: string, times: number): Promise<readonly string[]> {
  const texts = new Set<string>();
  for (let i = 0; i < times; i++) texts.add(await (await fetch(url)).text());
  return [...texts].sort();
}

test("every address of a name is an endpoint, of both families", async () => {
  const { port } = await startServers("127.0.0.1", "127.0.0.2", "::1");
  const addresses = ["127.0.0.1", "127.0.0.2", "::1"];
  const gateway = await serve(port, () => Promise.resolve({ addresses, ttlMs: 60_000 }));
  expect(await reached(gateway.url(), 30)).toEqual([...addresses]);
  expect(gateway.dataPlane.endpoints()).toMatchObject([
    { endpoint: "backend", address: `127.0.0.1:${port}` },
    { endpoint: "backend", address: `127.0.0.2:${port}` },
    { endpoint: "backend", address: `[::1]:${port}` },
  ]);
});

test("the request has the name as its host, not the address", async () => {
  const hosts: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    hosts.push(request.headers.host);
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  // A listening TCP server has such an address.
  const { port } = server.address() as AddressInfo;
  const gateway = await serve(port, () => Promise.resolve({ addresses: ["127.0.0.1"], ttlMs: 60_000 }));
  await fetch(gateway.url());
  expect(hosts).toEqual([`backend.example:${port}`]);
});

test("after a change of its addresses, requests go to the new ones, and the connections to unchanged ones stay open", async () => {
  const { port, connections } = await startServers("127.0.0.1", "127.0.0.2", "127.0.0.3");
  let addresses = ["127.0.0.1", "127.0.0.2"];
  const gateway = await serve(port, () => Promise.resolve({ addresses, ttlMs: 60_000 }));
  expect(await reached(gateway.url(), 30)).toEqual(["127.0.0.1", "127.0.0.2"]);
  addresses = ["127.0.0.2", "127.0.0.3"];
  gateway.clock.advance(60_000);
  await expect.poll(() => gateway.dataPlane.endpoints().map(({ address }) => address)).toContain(`127.0.0.3:${port}`);
  expect(await reached(gateway.url(), 30)).toEqual(["127.0.0.2", "127.0.0.3"]);
  expect(connections.get("127.0.0.2")).toBe(1);
});

test("a name that cannot be resolved again keeps its addresses", async () => {
  const { port } = await startServers("127.0.0.1");
  let questions = 0;
  const resolve = (): Promise<ResolvedName> =>
    questions++ === 0
      ? Promise.resolve({ addresses: ["127.0.0.1"], ttlMs: 60_000 })
      : Promise.reject(new Error("the name server is unavailable"));
  const gateway = await serve(port, resolve);
  expect((await fetch(gateway.url())).status).toBe(200);
  gateway.clock.advance(60_000);
  await expect.poll(() => questions).toBe(2);
  expect((await fetch(gateway.url())).status).toBe(200);
});

test("requests for a name without an address get a 503", async () => {
  const gateway = await serve(80, () => Promise.reject(new Error("no such name")));
  const ended = gateway.nextRecord();
  expect((await fetch(gateway.url())).status).toBe(503);
  expect(await ended).toMatchObject({ reason: "UpstreamConnectFailure", endpoint: "backend.example:80" });
});
