/** Connections to backends without requests. */
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";

const route = (name: string): string => routeManifest("r", [`{ backendRefs: [${backendRef(name)}] }`]);

/** A backend with a long keep-alive timeout, and its open sockets. */
async function startLasting() {
  const sockets = new Set<Socket>();
  const { port } = await startBackend((request, response) => {
    const { socket } = request;
    if (!sockets.has(socket)) socket.once("close", () => sockets.delete(socket));
    sockets.add(socket);
    response.setHeader("keep-alive", "timeout=600");
    response.end("ok");
  });
  return { port, sockets };
}

test("a connection without requests for ten minutes is closed, and the next request opens another", async () => {
  const { port, sockets } = await startLasting();
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route("b")));
  const send = async (): Promise<string> => (await fetch(`${gateway.url()}/`)).text();
  await send();
  gateway.clock.advance(299_999);
  await send();
  gateway.clock.advance(1);
  expect(await send()).toBe("ok");
  expect(sockets.size).toBe(1);
  gateway.clock.advance(600_000);
  await expect.poll(() => sockets.size).toBe(0);
  expect(await send()).toBe("ok");
});

test("connections to a backend without a route are closed at once", async () => {
  const [previous, next] = [await startLasting(), await startLasting()];
  const backends = manifests(backendManifest("b", previous.port), backendManifest("c", next.port));
  const gateway = await startGateway(manifests(gatewayManifest(), backends, route("b")));
  await (await fetch(`${gateway.url()}/`)).text();
  expect(previous.sockets.size).toBe(1);
  await gateway.apply(manifests(gatewayManifest(), backendManifest("c", next.port), route("c")));
  await expect.poll(() => previous.sockets.size).toBe(0);
});
