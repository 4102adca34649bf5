/**
 * Responses of backends that violate the protocol: valid parts are forwarded, for others the client gets a 502, and no
 * other request is affected.
 */
import { connect } from "node:http2";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { startRawBackend } from "../support/raw-backend.ts";
import { rawHttp } from "../support/raw-http.ts";

/** Longer than one write with its head. */
const long = "x".repeat(200_000);
const chunked = "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
const withBody = "content-length: 2\r\n\r\nok";

const gatewayFor = async (response: string) => {
  const port = await startRawBackend((path) => (path === "/odd" ? response : `HTTP/1.1 200 OK\r\n${withBody}`));
  return startGateway(
    manifests(gatewayManifest(), backendManifest("b", port), routeManifest("r", [`backendRefs: [${backendRef("b")}]`])),
  );
};

interface TestResponse {
  readonly status: number;
  readonly body: string;
}

async function sendHttp1(url: string, path: string, method: string, version = "1.1"): Promise<TestResponse> {
  return rawHttp(url, `${method} ${path} HTTP/${version}\r\nHost: a\r\nConnection: close\r\n\r\n`);
}

function sendHttp2(url: string, path: string, method: string): Promise<TestResponse> {
  const session = connect(url);
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":method": method, ":path": path });
  let status = 0;
  let body = "";
  stream.on("response", (headers) => (status = headers[":status"] ?? 0));
  stream.setEncoding("latin1").on("data", (chunk: string) => (body += chunk));
  return new Promise((resolve, reject) => stream.on("error", reject).on("close", () => resolve({ status, body })));
}

describe.each([
  ["HTTP/1.1", sendHttp1],
  ["HTTP/2", sendHttp2],
])("over %s", (protocol, send) => {
  test.each([
    ["announces trailers and sends none", `HTTP/1.1 200 OK\r\ntrailer: x\r\n${chunked}\r\n`, 200, "ok"],
    ["announces trailers of a body with a length", `HTTP/1.1 200 OK\r\ntrailer: x\r\n${withBody}`, 200, "ok"],
    [
      "announces trailers of a long body and sends none",
      `HTTP/1.1 200 OK\r\ntrailer: x\r\ncontent-length: ${long.length}\r\n\r\n${long}`,
      200,
      long,
    ],
    ["announces trailers of no body", "HTTP/1.1 304 Not Modified\r\ntrailer: x\r\n\r\n", 304, ""],
    [
      "repeats a field with a single value",
      `HTTP/1.1 200 OK\r\nlocation: /a\r\nlocation: /b\r\n${withBody}`,
      200,
      "ok",
    ],
    [
      "repeats a field with a single value, with a long body",
      `HTTP/1.1 200 OK\r\nlocation: /a\r\nlocation: /b\r\ncontent-length: ${long.length}\r\n\r\n${long}`,
      200,
      long,
    ],
    ["has fields of an unrequested upgrade", `HTTP/1.1 200 OK\r\nhttp2-settings: x\r\n${withBody}`, 200, "ok"],
    ["has a length and no content", "HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n", 204, ""],
    ["has content with 205", `HTTP/1.1 205 Reset Content\r\n${withBody}`, 205, ""],
    ["has an undefined status", `HTTP/1.1 999 Odd\r\n${withBody}`, protocol === "HTTP/2" ? 502 : 999, undefined],
    ["has an invalid status", `HTTP/1.1 099 Odd\r\n${withBody}`, 502, undefined],
    [
      "has a coding within its chunks",
      `HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
      502,
      undefined,
    ],
    [
      "has such a coding in two fields",
      `HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
      502,
      undefined,
    ],
    [
      "has another spelling of chunked",
      `HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
      200,
      "ok",
    ],
    ["has two framings", `HTTP/1.1 200 OK\r\ncontent-length: 1\r\n${chunked}\r\n`, 502, undefined],
  ])("a response that %s", async (_case, response, status, body) => {
    const gateway = await gatewayFor(response);
    const got = await send(gateway.url(), "/odd", "GET");
    expect(got.status).toBe(status);
    if (body !== undefined) expect(got.body.replace(/^2\r\nok\r\n0\r\n\r\n$/, "ok")).toBe(body);
    expect(await send(gateway.url(), "/even", "GET")).toMatchObject({ status: 200, body: "ok" });
  });

  test("a response to HEAD that announces trailers", async () => {
    const gateway = await gatewayFor("HTTP/1.1 200 OK\r\ntrailer: x\r\ncontent-length: 2\r\n\r\n");
    expect(await send(gateway.url(), "/odd", "HEAD")).toMatchObject({ status: 200, body: "" });
  });

  test.each(["__proto__", "constructor", "http2-settings"])("a trailer called %s", async (name) => {
    const gateway = await gatewayFor(`HTTP/1.1 200 OK\r\n${chunked}${name}: 1\r\n\r\n`);
    expect(await send(gateway.url(), "/odd", "GET")).toMatchObject({ status: 200 });
    expect(await send(gateway.url(), "/even", "GET")).toMatchObject({ status: 200, body: "ok" });
  });
});

test("a response that announces trailers, to an HTTP/1.0 client, which supports none", async () => {
  const gateway = await gatewayFor(`HTTP/1.1 200 OK\r\ntrailer: x\r\n${chunked}x: 1\r\n\r\n`);
  expect(await sendHttp1(gateway.url(), "/odd", "GET", "1.0")).toMatchObject({ status: 200, body: "ok" });
});

describe("interim responses reach the client before the final one (RFC 9110 §15.2)", () => {
  const fields = "Link: </a.css>\r\nLink: </b.css>\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Length: 9\r\n";
  const response = `HTTP/1.1 103 Early Hints\r\n${fields}\r\nHTTP/1.1 200 OK\r\n${withBody}`;

  test("over HTTP/1.1", async () => {
    const gateway = await gatewayFor(response);
    const received = await rawHttp(gateway.url(), "GET /odd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect(received.interim).toEqual(["HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\nlink: </b.css>"]);
    expect(received.status).toBe(200);
  });

  test("and not over HTTP/1.0, which has none", async () => {
    const gateway = await gatewayFor(response);
    const received = await rawHttp(gateway.url(), "GET /odd HTTP/1.0\r\nHost: a\r\n\r\n");
    expect(received).toMatchObject({ interim: [], status: 200 });
  });

  test("over HTTP/2", async () => {
    const gateway = await gatewayFor(response);
    const session = connect(gateway.url());
    onTestFinished(() => session.destroy());
    const stream = session.request({ ":path": "/odd" });
    const interim: unknown[] = [];
    stream.on("headers", (headers) => interim.push([headers[":status"], headers["link"]]));
    const status = await new Promise((resolve) => stream.once("response", (headers) => resolve(headers[":status"])));
    expect(status).toBe(200);
    expect(interim).toEqual([[103, "</a.css>, </b.css>"]]);
  });
});
