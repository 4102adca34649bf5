/** The last part of an upload releases the memory of the read that brought it, while the read is in progress. */
import { once } from "node:events";
import { createServer, type ServerHttp2Stream } from "node:http2";
import { connect, type AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../support/free-port.ts";
import { gatewayManifest, manifests, routeManifest, serviceManifest } from "../support/gateway.ts";
import { startProxy } from "../support/proxy-process.ts";

/** More than is kept for another attempt, so that the memory of the rest is not needed. */
const firstBytes = 2 * 1024 * 1024;
const lastBytes = 32 * 1024;

test("an upload to an HTTP/2 backend whose last read is long leaves its connection, and its worker", async () => {
  let received = 0;
  const server = createServer({ settings: { initialWindowSize: 8 * firstBytes } }).on(
    "stream",
    (stream: ServerHttp2Stream) => {
      stream.on("error", () => undefined);
      stream.on("data", (chunk: Buffer) => void (received += chunk.length));
      stream.on("end", () => {
        if (stream.destroyed) return;
        stream.respond({ ":status": 200 });
        stream.end("done");
      });
    },
  );
  server.on("session", (session) => session.setLocalWindowSize(8 * firstBytes));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const port = await freePort();
  const service = serviceManifest("svc", [(server.address() as AddressInfo).port], "appProtocol: kubernetes.io/h2c");
  const route = routeManifest("r", ["{ backendRefs: [{ name: svc, port: 80 }] }"]);
  await startProxy({ "all.yaml": manifests(gatewayManifest(port), service, route) }, ["--workers", "1"]);
  const client = connect(port, "127.0.0.1");
  onTestFinished(() => void client.destroy());
  let text = "";
  client.on("data", (chunk: Buffer) => void (text += chunk.toString("latin1")));
  for (let upload = 1; upload <= 3; upload++) {
    received = 0;
    client.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${firstBytes + lastBytes}\r\n\r\n`);
    client.write(Buffer.alloc(firstBytes));
    await expect.poll(() => received).toBe(firstBytes);
    client.write(Buffer.alloc(lastBytes));
    await expect.poll(() => text.split("HTTP/1.1 200").length - 1).toBe(upload);
  }
  expect(client.closed).toBe(false);
});
