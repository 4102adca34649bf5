/** Regular expressions of routes, end to end: the bounds of their compilation, and of the work for a request. */
import { expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

async function statusOf(url: string, path: string, header = "a: b"): Promise<number> {
  const { status } = await rawHttp(
    url,
    `GET ${path} HTTP/1.1\r\nHost: any.example\r\n${header}\r\nConnection: close\r\n\r\n`,
  );
  return status;
}

const matching = (match: string, backend: string): string =>
  `{ matches: [${match}], backendRefs: [${backendRef(backend)}] }`;
const path = (value: string): string => `{ path: { type: RegularExpression, value: '${value}' } }`;

/** Random letters that need a state each in an automaton. */
const random = Array.from({ length: 16_000 }, (_, at) => "abq".charAt(((at * 2_654_435_761) >>> 13) % 3)).join("");

async function start(...rules: readonly string[]) {
  const backend = await startBackend(respondWith(200, "here"));
  return startGateway(manifests(gatewayManifest(), backendManifest("b", backend.port), routeManifest("r", rules)), {
    expectsProblems: true,
  });
}

test("a path for which a pattern takes too long is rejected, and others are served", async () => {
  const gateway = await start(matching(path("/(?:.{0,100}q){4}z"), "b"), matching("{ path: { value: / } }", "b"));
  expect(await statusOf(gateway.url(), `/${random}`)).toBe(400);
  expect(gateway.records.at(-1)).toMatchObject({ reason: "MatchTooCostly", listener: "default/web/http" });
  expect(await statusOf(gateway.url(), "/qaqbqqz")).toBe(200);
  expect(await statusOf(gateway.url(), "/plain")).toBe(200);
});

test("so is a header, and a query parameter", async () => {
  const slow = "'(?:.{0,100}q){4}z'";
  const gateway = await start(
    matching(`{ headers: [{ type: RegularExpression, name: x-h, value: ${slow} }] }`, "b"),
    matching(`{ queryParams: [{ type: RegularExpression, name: p, value: ${slow} }] }`, "b"),
    matching("{ path: { value: / } }", "b"),
  );
  expect(await statusOf(gateway.url(), "/", `x-h: ${random}`)).toBe(400);
  expect(await statusOf(gateway.url(), `/?p=${random}`)).toBe(400);
  expect(await statusOf(gateway.url(), "/?p=aqqqqz")).toBe(200);
});

test("a path of 15 KiB is matched by a pattern that reads all of it", async () => {
  const gateway = await start(matching(path("/v1/[a-z]*"), "b"));
  expect(await statusOf(gateway.url(), `/v1/${"a".repeat(15_000)}`)).toBe(200);
});

test("a route whose patterns are too large is rejected before they are compiled", async () => {
  const bomb = Array.from({ length: 8 }, (_, at) => path(`/${at}${"x{1000}".repeat(140)}`)).join(", ");
  const before = process.memoryUsage().heapUsed;
  const gateway = await start(matching(bomb, "b"));
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(64 * 1024 * 1024);
  expect(await statusOf(gateway.url(), `/0${"x".repeat(2_000)}`)).toBe(404);
});

test("so is one that has too many", async () => {
  const many = Array.from({ length: 60 }, (_, at) => path(`/${at}/.{100}`)).join(", ");
  const gateway = await start(matching(many, "b"));
  expect(await statusOf(gateway.url(), `/0/${"x".repeat(100)}`)).toBe(404);
});

test("a request for which too many matches are tried is rejected, and other hosts are served", async () => {
  const backend = await startBackend(respondWith(200, "here"));
  // 16 parameters, of which the last never matches.
  const parameters = Array.from({ length: 16 }, (_, at) => `{ name: p${at}, value: ${at === 15 ? "never" : "v"} }`);
  const rule = `{ matches: [${Array(8)
    .fill(`{ queryParams: [${parameters.join(", ")}] }`)
    .join(", ")}] }`;
  // The hostnames are tried one after the other.
  const hostnames = Array.from({ length: 16 }, (_, at) => `"*.${"a.".repeat(at)}test"`).join(", ");
  const tried = ["r1", "r2"].map((name) =>
    routeManifest(name, Array<string>(16).fill(rule), `hostnames: [${hostnames}]`),
  );
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      ...tried,
      routeManifest("other", [matching("{ path: { value: / } }", "b")], "hostnames: [any.example]"),
    ),
    { expectsProblems: true },
  );
  const query = Array.from({ length: 16 }, (_, at) => `p${at}=v`).join("&");
  const { status } = await rawHttp(
    gateway.url(),
    `GET /?${query} HTTP/1.1\r\nHost: ${"a.".repeat(20)}test\r\nConnection: close\r\n\r\n`,
  );
  expect(status).toBe(400);
  expect(gateway.records.at(-1)).toMatchObject({ reason: "MatchTooCostly" });
  expect(await statusOf(gateway.url(), `/?${query}`)).toBe(200);
});
