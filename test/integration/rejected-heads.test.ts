/** Requests with an invalid head: the response, the access log and the metrics have the reason. */
import { connect } from "node:http2";
import { connect as connectSocket } from "node:net";
import { expect, test } from "vitest";
import { gatewayManifest, startGateway } from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

test.each([
  ["two Host fields", "GET /a?key=1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "/a?key=1"],
  ["an ambiguous path", "GET /..%2f HTTP/1.1\r\nHost: a\r\n\r\n", 400, "/..%2f"],
  ["a long target", `GET /${"a".repeat(16 * 1024)} HTTP/1.1\r\nHost: a\r\n\r\n`, 414, `/${"a".repeat(16 * 1024)}`],
  ["no Host", "GET / HTTP/1.1\r\n\r\n", 400, "/"],
  [
    "a body with a coding within its chunks",
    "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    501,
    "/",
  ],
  ["many fields", `GET / HTTP/1.1\r\nHost: a\r\n${"x: y\r\n".repeat(200)}\r\n`, 431, "/"],
])("%s", async (_case, request, status, path) => {
  const gateway = await startGateway(gatewayManifest());
  expect((await rawHttp(gateway.url(), request)).status).toBe(status);
  expect(gateway.records).toMatchObject([
    {
      status,
      reason: "BadRequest",
      method: "GET",
      path,
      httpVersion: "1.1",
      listener: undefined,
      sourceAddress: "127.0.0.1",
    },
  ]);
});

test.each([
  ["an invalid method", "G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400],
  ["an invalid target", "GET ..%2f HTTP/1.1\r\nHost: a\r\n\r\n", 400],
  ["two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400],
  ["a head that is too long", `GET / HTTP/1.1\r\nHost: a\r\nx: ${"y".repeat(65 * 1024)}\r\n\r\n`, 431],
])("%s, which Node itself rejects", async (_case, request, status) => {
  const gateway = await startGateway(gatewayManifest());
  expect((await rawHttp(gateway.url(), request)).status).toBe(status);
  expect(gateway.records).toMatchObject([{ status, reason: "BadRequest", sourceAddress: "127.0.0.1" }]);
});

test.each([
  ["no version", "GET /\r\n\r\n", { status: 400 }],
  ["HTTP/2.0 on an HTTP/1 connection", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", { status: 505 }],
  ["CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", { status: 501, method: "CONNECT", path: "a:80" }],
])("%s", async (_case, request, record) => {
  const gateway = await startGateway(gatewayManifest());
  expect((await rawHttp(gateway.url(), request)).status).toBe(record.status);
  expect(gateway.records).toMatchObject([{ ...record, reason: "BadRequest" }]);
});

test("CONNECT after a request that waits for its response ends only the connection", async () => {
  const gateway = await startGateway(gatewayManifest());
  const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\nCONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n";
  await rawHttp(gateway.url(), request);
  expect((await fetch(gateway.url())).status).toBe(404);
});

test("a client that disconnects within its head is not recorded as rejected", async () => {
  const gateway = await startGateway(gatewayManifest());
  const { hostname, port } = new URL(gateway.url());
  const socket = connectSocket(Number(port), hostname);
  socket.end("GET / HTTP/1.1\r\nHo");
  await new Promise((resolve) => socket.resume().on("close", resolve));
  expect(gateway.records).toEqual([]);
});

test("on HTTP/2 too", async () => {
  const gateway = await startGateway(gatewayManifest());
  const session = connect(gateway.url());
  const stream = session.request({ ":path": "/..%2f", "user-agent": "prober" });
  const status = await new Promise((resolve) => stream.on("response", (headers) => resolve(headers[":status"])));
  stream.resume();
  await new Promise((resolve) => stream.on("close", resolve));
  session.close();
  expect(status).toBe(400);
  expect(gateway.records).toMatchObject([
    { status: 400, reason: "BadRequest", path: "/..%2f", httpVersion: "2", userAgent: "prober" },
  ]);
});
