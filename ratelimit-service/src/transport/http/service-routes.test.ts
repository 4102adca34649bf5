import { systemClock } from "@gatewayproxy/runtime/clock";
import { afterEach, describe, expect, test } from "vitest";
import type { RateLimitRequest, RateLimitResponse } from "../../limiter/rate-limit.ts";
import { RateLimitError } from "../../service.ts";
import { ServingStatus } from "../serving-status.ts";
import { HttpServer } from "./http-server.ts";
import { serviceRoutes } from "./service-routes.ts";

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

type Answer = (request: RateLimitRequest) => RateLimitResponse | Promise<RateLimitResponse>;

async function start(answer: Answer, status = new ServingStatus(true)): Promise<{ url: string; faults: unknown[] }> {
  const faults: unknown[] = [];
  const server = new HttpServer({
    routes: new Map(serviceRoutes({ shouldRateLimit: answer }, status)),
    clock: systemClock,
    onFault: (error) => faults.push(error),
  });
  closers.push(() => server.close(0));
  return { faults, url: `http://127.0.0.1:${await server.listen("127.0.0.1", 0)}` };
}

const answerOf = (overallCode: RateLimitResponse["overallCode"]): RateLimitResponse => ({
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
  ] as const)("answers %s with %i", async (code, status, body) => {
    const { url } = await start(() => answerOf(code));
    const response = await post(url, '{"domain": "rl"}');

    expect([response.status, response.headers.get("content-type"), await response.text()]).toEqual([
      status,
      "application/json",
      body,
    ]);
  });

  test.each([
    ["", "Bad Request: not JSON: Unexpected end of JSON input\n"],
    ['{"domain": "a", "hits": 1}', "Bad Request: hits: unknown field, accepted are domain, descriptors, hitsAddend\n"],
  ])("answers %j with 400 and the reason", async (body, text) => {
    const { url } = await start(() => answerOf("OK"));
    const response = await post(url, body);

    expect([response.status, await response.text()]).toEqual([400, text]);
  });

  test.each([{ origin: "http://evil.com" }, { origin: "null" }, { "sec-fetch-site": "cross-site" }])(
    "counts nothing for a web page: %j",
    async (headers) => {
      let calls = 0;
      const { url } = await start(() => {
        calls++;
        return answerOf("OK");
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

  test("answers an error of the service with 400 and its words", async () => {
    const { url } = await start(() => Promise.reject(new RateLimitError("StoreUnavailable", "connection refused")));
    const response = await post(url, "{}");

    expect([response.status, await response.text()]).toEqual([400, "Bad Request: connection refused\n"]);
  });

  test("cuts a long list of problems", async () => {
    const { url } = await start(() => answerOf("OK"));
    const response = await post(url, JSON.stringify({ descriptors: Array.from({ length: 1_000 }, () => 1) }));

    expect((await response.text()).length).toBeLessThan(1_000);
  });

  test("tells nothing of an error of ours, and reports it", async () => {
    const { url, faults } = await start(() => {
      throw new TypeError("secret");
    });
    const response = await post(url, "{}");

    expect([response.status, await response.text()]).toEqual([500, "internal error\n"]);
    expect(faults).toEqual([new TypeError("secret")]);
  });

  test("refuses a body beyond its bound and lives on", async () => {
    const { url } = await start(() => answerOf("OK"));
    const status = await post(url, " ".repeat(5_000_000)).then(
      (response) => response.status,
      () => "cut off",
    );

    expect([413, "cut off"]).toContain(status);
    expect((await post(url, "{}")).status).toBe(200);
  });
});

describe("/healthcheck", () => {
  test("is 200 OK while serving and an empty 500 while not", async () => {
    const status = new ServingStatus(true);
    const { url } = await start(() => answerOf("OK"), status);
    const up = await fetch(`${url}/healthcheck`);
    status.set(false);
    const down = await fetch(`${url}/healthcheck`, { method: "POST" });

    expect([up.status, await up.text()]).toEqual([200, "OK"]);
    expect([down.status, await down.text()]).toEqual([500, ""]);
  });
});

test("other paths are not there, and the answer says what is", async () => {
  const { url } = await start(() => answerOf("OK"));
  const response = await fetch(`${url}/other`);

  expect([response.status, await response.text()]).toEqual([
    404,
    "nothing is at /other; there are /json, /healthcheck\n",
  ]);
});
