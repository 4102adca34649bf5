/** HTTP/2 with prior knowledge on a port that serves HTTP/1.1 too. */
import type { ServerResponse } from "node:http";
import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from "node:http2";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Echo, respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { endHeaders, endStream, frame, framesOf, frameType, openRawHttp2, rootRequest } from "../support/raw-http2.ts";

function open(url: string): ClientHttp2Session {
  const session = connect(url);
  onTestFinished(() => session.destroy());
  return session;
}

interface TestResponse {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly body: string;
}

function send(session: ClientHttp2Session, headers: Record<string, string> = {}, body?: string): Promise<TestResponse> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ":path": "/", ...headers }, { endStream: body === undefined });
    const chunks: Buffer[] = [];
    let head: IncomingHttpHeaders = {};
    let trailers: IncomingHttpHeaders = {};
    stream.on("response", (received) => {
      head = received;
    });
    stream.on("trailers", (received) => {
      trailers = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", reject);
    stream.on("close", () => resolve({ headers: head, trailers, body: Buffer.concat(chunks).toString() }));
    if (body !== undefined) stream.end(body);
  });
}

const route = (port: number): string =>
  manifests(gatewayManifest(), backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`]));

test("a request and its body arrive like an HTTP/1.1 request", async () => {
  const gateway = await startGateway(route((await startBackend()).port));
  const { headers, body } = await send(open(gateway.url()), { ":method": "POST", "x-a": "1" }, "hello");
  expect(headers[":status"]).toBe(200);
  const echo = JSON.parse(body) as Echo;
  expect(echo).toMatchObject({ method: "POST", url: "/", body: "hello", headers: { "x-a": "1" } });
  expect(Object.keys(echo.headers).some((name) => name.startsWith(":"))).toBe(false);
  expect(gateway.records[0]).toMatchObject({ httpVersion: "2", status: 200, reason: undefined });
});

test("many streams share a connection", async () => {
  const gateway = await startGateway(route((await startBackend(respondWith(200, "ok"))).port));
  const session = open(gateway.url());
  const responses = await Promise.all(Array.from({ length: 100 }, () => send(session)));
  expect(new Set(responses.map(({ body }) => body))).toEqual(new Set(["ok"]));
});

test("a limit denies with the same status, headers and text", async () => {
  const gateway = await startGateway(
    manifests(
      route((await startBackend(respondWith(200))).port),
      policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 1, unit: Minutes }"]),
    ),
  );
  const session = open(gateway.url());
  await send(session);
  const { headers, body } = await send(session);
  expect(headers).toMatchObject({
    ":status": 429,
    "x-ratelimit-limit": "1",
    "x-ratelimit-remaining": "0",
    "retry-after": "60",
  });
  expect(body).toBe("rate limit exceeded");
});

test("a client that expects 100 Continue gets it", async () => {
  const gateway = await startGateway(route((await startBackend()).port));
  const stream = open(gateway.url()).request({ ":method": "POST", ":path": "/", expect: "100-continue" });
  const chunks: Buffer[] = [];
  stream.on("continue", () => stream.end("hello"));
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  await new Promise((resolve) => stream.on("close", resolve));
  expect(JSON.parse(Buffer.concat(chunks).toString())).toMatchObject({ body: "hello" });
});

test("trailers pass", async () => {
  const { port } = await startBackend((_request, response) => {
    response.writeHead(200, { trailer: "x-checksum" });
    response.write("body");
    response.addTrailers({ "x-checksum": "abc" });
    response.end();
  });
  const { body, trailers } = await send(open((await startGateway(route(port))).url()));
  expect([body, trailers["x-checksum"]]).toEqual(["body", "abc"]);
});

describe.each([
  ["a complete request", [frame(frameType.headers, endHeaders | endStream, 1, rootRequest)]],
  [
    "an incomplete request",
    [frame(frameType.headers, endHeaders, 1, rootRequest), frame(frameType.data, 0, 1, Buffer.from("begun"))],
  ],
])("the response to %s ends its stream, so that the client knows that it is complete", (_request, request) => {
  test.each([
    ["in one piece", (response: ServerResponse) => void response.end("all")],
    [
      "in pieces",
      (response: ServerResponse) => {
        response.write("some");
        setTimeout(() => response.end(), 20);
      },
    ],
  ])("%s", async (_pieces, respond) => {
    const gateway = await startGateway(route((await startBackend((_, response) => respond(response))).port));
    const { socket, received } = openRawHttp2(gateway.url());
    socket.write(Buffer.concat(request));
    await expect.poll(() => gateway.records).toMatchObject([{ status: 200, reason: undefined }]);
    const last = () =>
      framesOf(received()).find(
        ({ type, flags, stream }) => stream === 1 && (type === frameType.rstStream || (flags & endStream) !== 0),
      );
    await expect.poll(() => last()?.type).toBe(frameType.data);
  });
});

test("a response that the backend resets resets the stream and not the connection", async () => {
  const { port } = await startBackend((request, response) => {
    if (request.url === "/ok") response.end("ok");
    else response.writeHead(200, { "content-length": 9 }).write("part", () => response.destroy());
  });
  const session = open((await startGateway(route(port))).url());
  await expect(send(session, { ":path": "/cut" })).rejects.toThrow("INTERNAL_ERROR");
  expect((await send(session, { ":path": "/ok" })).body).toBe("ok");
});

test("a stream that the client resets ends the attempt", async () => {
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<undefined>();
  const { promise: gone, resolve } = Promise.withResolvers<undefined>();
  const { port } = await startBackend((_request, response) => {
    response.on("close", () => resolve(undefined));
    arrive(undefined);
  });
  const gateway = await startGateway(route(port));
  const stream = open(gateway.url()).request({ ":path": "/" });
  stream.on("error", () => undefined);
  await arrived;
  const record = gateway.nextRecord();
  stream.close(8);
  await gone;
  expect((await record).reason).toBe("ClientDisconnect");
});

test("a client that disconnects ends all its attempts", async () => {
  const gone: Promise<unknown>[] = [];
  const { port } = await startBackend((_request, response) => {
    gone.push(new Promise((resolve) => response.on("close", resolve)));
  });
  const gateway = await startGateway(route(port));
  const { socket } = openRawHttp2(gateway.url());
  for (const stream of [1, 3]) socket.write(frame(frameType.headers, endHeaders | endStream, stream, rootRequest));
  await expect.poll(() => gone).toHaveLength(2);
  socket.destroy();
  await Promise.all(gone);
  await expect.poll(() => gateway.records.map(({ reason }) => reason)).toEqual(Array(2).fill("ClientDisconnect"));
});

test("a request and its reset in one read end without an error, even if the request is invalid", async () => {
  const gateway = await startGateway(route((await startBackend(respondWith(200, "ok"))).port));
  const { socket } = openRawHttp2(gateway.url());
  // `:path: /..%2f` as a literal, in place of `/`.
  const path = Buffer.from("\x04\x06/..%2f");
  const badRequest = Buffer.concat([rootRequest.subarray(0, 1), path, rootRequest.subarray(2)]);
  const reset = frame(frameType.rstStream, 0, 1, Buffer.from([0, 0, 0, 8]));
  socket.write(Buffer.concat([frame(frameType.headers, endHeaders | endStream, 1, badRequest), reset]));
  expect((await send(open(gateway.url()))).body).toBe("ok");
});

test("a path with bytes that a URI cannot contain is rejected, as on HTTP/1.1", async () => {
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      routeManifest("r", [
        '{ matches: [{ path: { value: "/caf%C3%A9" } }] }',
        "{ filters: [{ type: RequestRedirect, requestRedirect: { hostname: unlimited.example } }] }",
      ]),
    ),
  );
  const response = await send(open(gateway.url()), { ":path": Buffer.from("/café").toString("latin1") });
  expect([response.headers[":status"], response.body]).toEqual([400, "request target is not a valid path\n"]);
});

test("Host that differs from :authority is rejected", async () => {
  const gateway = await startGateway(route((await startBackend(respondWith(200))).port));
  const { headers } = await send(open(gateway.url()), { ":authority": "a.example", host: "b.example" });
  expect(headers[":status"]).toBe(400);
});
