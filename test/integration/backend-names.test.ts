/** A backend with a host name: its endpoints are the current addresses of the name. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
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

describe("name servers of a tenant", () => {
  const nameOf = (at: number): string => `b${at}.example`;

  /** A Gateway with Backends of a namespace for several names, and one Backend of another namespace. */
  async function serveNames(
    count: number,
    addressesOf: (host: string) => readonly string[],
    responseTo: (host: string) => Promise<void> = () => Promise.resolve(),
  ) {
    const queries = new Map<string, number>();
    const resolveName = async (host: string): Promise<ResolvedName> => {
      queries.set(host, (queries.get(host) ?? 0) + 1);
      await responseTo(host);
      return { addresses: addressesOf(host), ttlMs: 0 };
    };
    const backend = (name: string, namespace: string, host: string) => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: ${namespace} }
spec: { static: { host: ${host}, port: 80 } }
`;
    const rules = Array.from(
      { length: count },
      (_, at) => `{ matches: [{ path: { value: /${at} } }], backendRefs: [${backendRef(`b${at}`)}] }`,
    );
    const grant = `
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: { name: g, namespace: other }
spec:
  from: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default }]
  to: [{ group: gatewayproxy.dev, kind: Backend }]
`;
    const elsewhere = "{ group: gatewayproxy.dev, kind: Backend, namespace: other, name: own }";
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        ...rules.map((_, at) => backend(`b${at}`, "default", nameOf(at))),
        backend("own", "other", "own.example"),
        grant,
        routeManifest("r", [...rules.slice(0, 15), `{ backendRefs: [${elsewhere}] }`]),
        ...Array.from({ length: Math.ceil((count - 15) / 16) }, (_, page) =>
          routeManifest(`r${page}`, rules.slice(15 + page * 16, 31 + page * 16)),
        ),
      ),
      { resolveName },
    );
    /** Lets a time pass, in which each query has its response. */
    const pass = async (seconds: number): Promise<void> => {
      for (let step = 0; step < seconds * 10; step++) {
        gateway.clock.advance(100);
        await new Promise(setImmediate);
      }
    };
    await pass(1);
    return { gateway, queries, pass };
  }

  const many = Array.from({ length: 6_000 }, (_, at) => `10.0.${Math.floor(at / 250)}.${at % 250}`);

  test("add at most a thousand endpoints for a name, and are asked again as late as their addresses are many", async () => {
    const { gateway, queries, pass } = await serveNames(1, (host) => (host === nameOf(0) ? many : ["192.0.2.1"]));
    expect(gateway.dataPlane.endpoints()).toHaveLength(1_000 + 1);
    queries.clear();
    await pass(58);
    expect(queries.get(nameOf(0))).toBeUndefined();
    expect(queries.get("own.example")).toBeGreaterThan(50);
    await pass(3);
    expect(queries.get(nameOf(0))).toBe(1);
  });

  test("are asked 50 times a second for all names of a namespace, and others as their own TTL says", async () => {
    const { queries, pass } = await serveNames(200, () => ["192.0.2.1"]);
    queries.clear();
    await pass(12);
    const own = queries.get("own.example") ?? 0;
    expect(own).toBeGreaterThan(10);
    const all = [...queries.values()].reduce((sum, each) => sum + each, 0) - own;
    expect(all).toBeGreaterThan(400);
    expect(all).toBeLessThanOrEqual(12 * 50);
  });

  test("are asked for 32 names of a namespace at the same time, and for those of others as well", async () => {
    const open: (() => void)[] = [];
    const responseTo = (host: string) =>
      host === "own.example" ? Promise.resolve() : new Promise<void>((resolve) => open.push(resolve));
    const { gateway, queries } = await serveNames(200, () => ["192.0.2.1"], responseTo);
    const asked = () => [...queries.keys()].filter((host) => host !== "own.example").length;
    expect(asked()).toBe(32);
    expect(queries.get("own.example")).toBeGreaterThan(0);
    for (let responses = 1; responses <= 200; responses++) {
      open.shift()?.();
      await expect.poll(asked).toBe(Math.min(200, 32 + responses));
    }
    await expect
      .poll(() => gateway.dataPlane.endpoints().filter(({ address }) => address === "192.0.2.1:80"))
      .toHaveLength(201);
  });

  test("add at most 16,384 endpoints for all names of a namespace", async () => {
    const { gateway, pass } = await serveNames(40, (host) => (host === "own.example" ? ["192.0.2.1"] : many));
    await pass(62);
    expect(gateway.dataPlane.endpoints()).toHaveLength(40 * Math.floor(16_384 / 40) + 1);
  });
});
