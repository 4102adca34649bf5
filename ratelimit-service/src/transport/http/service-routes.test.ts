import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { afterEach, describe, expect, test } from "vitest";
import type { RateLimitRequest, RateLimitResponse } from "../../model/rate-limit.ts";
import { RateLimitError } from "../../service.ts";
import { ServingStatus } from "../serving-status.ts";
import { HttpServer, type HttpServerOptions } from "./http-server.ts";
import { serviceRoutes } from "./service-routes.ts";

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

type ServiceResponse = (request: RateLimitRequest) => RateLimitResponse | Promise<RateLimitResponse>;

async function start(
  response: ServiceResponse,
  status = new ServingStatus(true),
  options: Partial<HttpServerOptions> = {},
): Promise<{ url: string; errors: unknown[]; server: HttpServer }> {
  const errors: unknown[] = [];
  const server = new HttpServer({
    routes: new Map(serviceRoutes({ shouldRateLimit: response }, status)),
    clock: systemClock,
    onError: (error) => errors.push(error),
    ...options,
  });
  closers.push(() => server.close(0));
  return { errors, server, url: `http://127.0.0.1:${await server.listen("127.0.0.1", 0)}` };
}

const responseOf = (overallCode: RateLimitResponse["overallCode"]): RateLimitResponse => ({
  overallCode,
  statuses: [],
  responseHeaders: [],
});
const post = (url: string, body: string) => fetch(`${url}/json`, { method: "POST", body });

describe("/json", () => {
  test.each([
    ["OK", 200, '{"overallCode":"OK"}'],
    ["OVER_LIMIT", 429, '{"overallCode":"OVER_LIMIT"}'],
    ["UNKNOWN", 500, "{}"],
  ] as const)("returns %s with %i", async (code, status, body) => {
    const { url } = await start(() => responseOf(code));
    const response = await post(url, '{"domain": "rl"}');

    expect([response.status, response.headers.get("content-type"), await response.text()]).toEqual([
      status,
      "application/json",
      body,
    ]);
  });

  test.each([
    ["", "Bad Request: not JSON: Unexpected end of JSON input\n"],
    [
      '{"domain": "a", "hits": 1}',
      "Bad Request: hits: unknown field; accepted fields are domain, descriptors, hitsAddend\n",
    ],
  ])("rejects %j with 400 and the reason", async (body, text) => {
    const { url } = await start(() => responseOf("OK"));
    const response = await post(url, body);

    expect([response.status, await response.text()]).toEqual([400, text]);
  });

  test.each([{ origin: "http://evil.com" }, { origin: "null" }, { "sec-fetch-site": "cross-site" }])(
    "counts nothing for a web page: %j",
    async (headers) => {
      let calls = 0;
      const { url } = await start(() => {
        calls++;
        return responseOf("OK");
      });
      const init = { method: "POST", body: '{"domain": "rl"}' };
      const types = ["text/plain", "application/x-www-form-urlencoded", "application/json"];
      for (const type of types) {
        const page = await fetch(`${url}/json`, { ...init, headers: { ...headers, "content-type": type } });
        expect(page.status).toBe(403);
      }
      expect(calls).toBe(0);
      // As curl sends it.
      const form = { "content-type": "application/x-www-form-urlencoded" };
      expect((await fetch(`${url}/json`, { ...init, headers: form })).status).toBe(200);
    },
  );

  test("reports an error of the service with 400 and its words", async () => {
    const { url } = await start(() => Promise.reject(new RateLimitError("StoreUnavailable", "connection refused")));
    const response = await post(url, "{}");

    expect([response.status, await response.text()]).toEqual([400, "Bad Request: connection refused\n"]);
  });

  test("cuts a long list of problems", async () => {
    const { url } = await start(() => responseOf("OK"));
    const response = await post(url, JSON.stringify({ descriptors: Array.from({ length: 1_000 }, () => 1) }));

    expect((await response.text()).length).toBeLessThan(1_000);
  });

  test("hides an internal error, and reports it", async () => {
    const { url, errors } = await start(() => {
      throw new TypeError("secret");
    });
    const response = await post(url, "{}");

    expect([response.status, await response.text()]).toEqual([500, "internal error\n"]);
    expect(errors).toEqual([new TypeError("secret")]);
  });

  test.each([
    ["with its length", (body: string) => body],
    ["in chunks", (body: string) => new Blob([body]).stream()],
  ])("rejects a body beyond its bound, sent %s, and lives on", async (_, bodyOf) => {
    const { url } = await start(() => responseOf("OK"));
    const init = { method: "POST", duplex: "half" } as const;
    const response = await fetch(`${url}/json`, { ...init, body: bodyOf(" ".repeat(262_145)) });

    expect([response.status, await response.text()]).toEqual([
      413,
      "the body is too large: at most 262144 bytes are accepted\n",
    ]);
    expect((await post(url, `{}${" ".repeat(262_142)}`)).status).toBe(200);
  });

  test("stops reading at twenty problems, and reports ten", async () => {
    const { url } = await start(() => responseOf("OK"));
    const fields = Array.from({ length: 15_000 }, (_, index) => `"k${index}":1`);
    const response = await post(url, `{${fields.join(",")}}`);

    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("; and 10 more")]);
  });

  test.each([
    ["descriptors", { domain: "d", descriptors: Array.from({ length: 257 }, () => ({})) }],
    ["entries", { domain: "d", descriptors: [{ entries: Array.from({ length: 33 }, () => ({ key: "a" })) }] }],
    ["characters", { domain: "d", descriptors: [{ entries: [{ key: "a", value: "x".repeat(65_537) }] }] }],
  ])("rejects a call with too many %s", async (what, call) => {
    const { url } = await start(() => responseOf("OK"));
    const response = await post(url, JSON.stringify(call));

    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining(what)]);
  });

  test("rejects what is deep in the place of a text", async () => {
    const { url, errors } = await start(() => responseOf("OK"));
    const response = await post(url, `{"domain": ${"[".repeat(100_000)}${"]".repeat(100_000)}}`);

    expect(response.status).toBe(400);
    expect(errors).toEqual([]);
  });

  test("rejects bodies for which there is no memory, whose number of chunks does not matter", async () => {
    const { url, server } = await start(() => responseOf("OK"), undefined, { maxBodyMemoryBytes: 40_000 });
    const port = Number(new URL(url).port);
    const head = "POST /json HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    const sockets = [1, 2].map(() => connect(port, "127.0.0.1"));
    for (const socket of sockets) socket.write(head + "1\r\n \r\n".repeat(10_000));
    // A slab for each, and no more than a first chunk besides.
    await expect.poll(() => server.bodyMemoryBytes).toBeGreaterThanOrEqual(32_768);
    expect(server.bodyMemoryBytes).toBeLessThan(33_000);
    const response = await post(url, " ".repeat(17_000));

    expect([response.status, await response.text()]).toEqual([503, "too many bodies are being received\n"]);
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => server.bodyMemoryBytes).toBe(0);
    expect((await post(url, "{}")).status).toBe(200);
  });
});

describe("/healthcheck", () => {
  test("is 200 OK while serving and an empty 500 while not", async () => {
    const status = new ServingStatus(true);
    const { url } = await start(() => responseOf("OK"), status);
    const up = await fetch(`${url}/healthcheck`);
    status.set(false);
    const down = await fetch(`${url}/healthcheck`, { method: "POST" });

    expect([up.status, await up.text()]).toEqual([200, "OK"]);
    expect([down.status, await down.text()]).toEqual([500, ""]);
  });
});

test("a request target that is not a URL is rejected", async () => {
  const { url } = await start(() => responseOf("OK"));
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.end("GET //[ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 [^]*request target \/\/\[ is not a valid URL\n$/);
});

test("other paths are not there, and the response says what is", async () => {
  const { url } = await start(() => responseOf("OK"));
  const response = await fetch(`${url}/other`);

  expect([response.status, await response.text()]).toEqual([
    404,
    "no route for /other; the paths are /json, /healthcheck\n",
  ]);
});
