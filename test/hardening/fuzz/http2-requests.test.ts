/** Bytes of HTTP/2 clients against a gateway: it has no internal error, and other clients are served. */
import { connect } from "node:net";
import { expect } from "vitest";
import { respondWith, startBackend } from "../../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../../support/gateway.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";
import { clientFrames, frameText, http2Tokens } from "../support/http2-seeds.ts";
import { perTest } from "../support/per-test.ts";

const world = perTest(async () => {
  const { port } = await startBackend(respondWith(200, "ok"));
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  return startGateway(manifests(gatewayManifest(), backendManifest("b", port), route));
});

const hello = `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${frameText(4, 0, 0)}`;

/** Sends, and resolves when the gateway closes or is silent. */
function send(url: URL, text: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(Number(url.port), url.hostname, () => socket.write(text, "latin1"));
    socket.setTimeout(30, () => void socket.destroy());
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
    socket.resume();
  });
}

fuzz("http2-requests", {
  prepare: world,
  arbitrary: mutated(clientFrames, http2Tokens),
  async check(text) {
    const gateway = await world();
    await send(new URL(gateway.url()), hello + text);
    const other = await fetch(gateway.url());
    expect([other.status, await other.text(), gateway.internalErrors]).toEqual([200, "ok", []]);
  },
});
