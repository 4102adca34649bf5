/**
 * A client may end its side before its backend is connected, as the health checks of load balancers do: they connect,
 * and close. The backend gets this end, too, and nothing of the connection is left.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import type { Backend, StreamListener } from "../../proxy/src/ir/snapshot.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import {
  connectionLimit,
  openTcp,
  startStreams,
  startTcp,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";

/** A server that ends its side when it is asked to. */
async function startServer() {
  const sockets: Socket[] = [];
  const { port } = await startTcp((socket) => void sockets.push(socket.resume()));
  return { backend: streamBackend("a", [port]), sockets };
}

/** Serves the backend with a limit of one connection. */
function serve(backend: Backend, kind: "TCPRoute" | "TLSRoute", rest: Partial<StreamListener> = {}) {
  const route = streamRoute("a", [backend], { kind, limits: [connectionLimit(1)] });
  const listener = streamListener(kind === "TCPRoute" ? "TCP" : "TLS", [route], rest);
  return startStreams({ binds: [streamBind([listener])], backends: [backend] }, { expectsProxyHeader: true });
}

const proxyHeader = "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n";

test.each(["ends at once", "ends later"])(
  "a backend that %s gets the end of a client that sends nothing",
  async (mode) => {
    const { backend, sockets } = await startServer();
    const gateway = await serve(backend, "TCPRoute");
    for (let at = 0; at < 3; at++) {
      const ended = gateway.ended();
      // The end comes with the header, so that the gateway has both before it connects to the backend.
      (await openTcp(gateway.port())).resume().end(proxyHeader);
      await expect.poll(() => sockets.length).toBe(at + 1);
      const socket = sockets[at];
      if (mode === "ends at once") socket?.end();
      await expect.poll(() => socket?.readableEnded).toBe(true);
      socket?.end();
      expect(await ended).toMatchObject([{ reason: "ClientClosed", receivedBytes: 0 }]);
    }
    expect(gateway.open.size).toBe(0);
  },
);

describeWith(["openssl"], "behind a listener that ends TLS", ({ openssl }) => {
  test("a backend gets the end of a client that sends nothing", async () => {
    const directory = mkdtempSync(join(tmpdir(), "early-ends-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const { cert, key } = new TestAuthority(openssl, directory, "authority").issue("gateway", "DNS:a.example");
    const certificate = { source: "default/c", chain: cert, privateKey: { secret: key }, hostnames: ["a.example"] };
    const { backend, sockets } = await startServer();
    const gateway = await serve(backend, "TLSRoute", {
      tls: { certificates: [certificate], minVersion: "TLSv1.2", maxVersion: "TLSv1.3", protocols: [] },
    });
    const ended = gateway.ended();
    const socket = connectTcp({ host: "127.0.0.1", port: gateway.port(), allowHalfOpen: true });
    socket.write(proxyHeader);
    const client = connect({ socket, servername: "a.example", rejectUnauthorized: false });
    onTestFinished(() => void client.destroy());
    await once(client, "secureConnect");
    // With the end of its handshake.
    client.resume().end();
    await expect.poll(() => sockets[0]?.readableEnded).toBe(true);
    sockets[0]?.end();
    expect(await ended).toMatchObject([{ reason: "ClientClosed", receivedBytes: 0 }]);
  });
});
