/** A client connection ends when the client disconnects. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

const route = (port: number): string =>
  manifests(gatewayManifest(), backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`]));

async function open(gateway: TestGateway): Promise<Socket> {
  const { hostname, port } = new URL(gateway.url());
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return socket;
}

test.each([
  ["nothing", ""],
  ["half of the HTTP/2 preface", "PR"],
])("the connection of a client that disconnects after %s is closed at once", async (_said, bytes) => {
  const gateway = await startGateway(route((await startBackend(respondWith(200))).port));
  const socket = await open(gateway);
  const closed = once(socket, "end");
  socket.resume().end(bytes);
  await closed;
  await expect.poll(() => gateway.dataPlane.tasks()[0]?.children).toEqual([]);
});
