import { once } from "node:events";
import { createServer, type Http2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { gatewayManifest, manifests, routeManifest, serviceManifest, startGateway } from "../support/gateway.ts";

/** As a server that restarts: the gateway has read the end of one connection, and not yet those of the others. */
test("a server that ends all its connections gets the request again on a new one", async () => {
  const sessions = new Set<Http2Session>();
  const held: ServerHttp2Stream[] = [];
  const server = createServer({ settings: { maxConcurrentStreams: 1 } });
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    stream.on("error", () => undefined);
    const { session } = stream;
    if (headers[":path"] === "/held") {
      held.push(stream);
      if (session !== undefined) sessions.add(session);
    } else if (session !== undefined && sessions.has(session)) {
      // It has processed the first request only.
      session.goaway(0, 1);
    } else {
      stream.respond({ ":status": 200 }, { endStream: true });
    }
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      serviceManifest("svc", [port], "appProtocol: kubernetes.io/h2c"),
      routeManifest("r", ["{ backendRefs: [{ name: svc, port: 80 }] }"]),
    ),
  );
  const responses: Promise<Response>[] = [];
  for (let count = 1; count <= 5; count++) {
    responses.push(fetch(`${gateway.url()}/held`));
    await expect.poll(() => held.length).toBe(count);
  }
  for (const stream of held) stream.respond({ ":status": 200 }, { endStream: true });
  expect((await Promise.all(responses)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect(sessions.size).toBe(5);
  expect((await fetch(gateway.url(), { method: "POST", body: "a" })).status).toBe(200);
});
