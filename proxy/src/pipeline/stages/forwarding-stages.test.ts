import { expect, test } from "vitest";
import { compileFilters } from "../../filters/compile-filters.ts";
import { RecordingRequest } from "../testing/recording-request.ts";
import { closedRule } from "./closed-rule.ts";
import { detectLoop } from "./detect-loop.ts";
import { prepareBody } from "./prepare-body.ts";
import { requestFilters } from "./request-filters.ts";
import { requestTimeout } from "./request-timeout.ts";

test("a closed rule serves no request", () => {
  const request = new RecordingRequest({ rule: { isClosed: true } });
  expect(request.run(closedRule)).toBe("responded");
  expect(request.calls).toEqual(["reply PolicyRefused"]);
});

test("a request that has passed this Gateway too often is rejected", () => {
  const passes = Array.from({ length: 20 }, () => "gateway-proxy-0").join(", ");
  const request = new RecordingRequest({ head: { rawHeaders: ["cdn-loop", passes] } });
  expect(request.run(detectLoop)).toBe("responded");
  expect(request.calls).toEqual(["reply LoopDetected"]);
});

test("a request that continues carries the name of this Gateway", () => {
  const request = new RecordingRequest();
  expect(request.run(detectLoop)).toBe("continue");
  expect(request.loop).toContain("gateway-proxy-0");
});

test("the timeout of the request ends it, unless it was cancelled", () => {
  const request = new RecordingRequest({ rule: { timeouts: { requestMs: 1_000 } } });
  expect(request.run(requestTimeout)).toBe("continue");
  request.clock.advance(400);
  expect(request.deadline?.remainingMs).toBe(600);
  request.clock.advance(600);
  expect(request.calls).toEqual(["abort RequestTimeout"]);
  const other = new RecordingRequest({ rule: { timeouts: { requestMs: 1_000 } } });
  other.run(requestTimeout);
  other.deadline?.cancel();
  other.clock.advance(1_000);
  expect(other.calls).toEqual([]);
});

test("the request to the backend has the edits of the filters, and no body that the client does not send", () => {
  const filters = compileFilters([
    { kind: "RequestHeaderModifier", set: [{ name: "x-team", value: "blue" }], add: [], remove: [] },
  ]);
  const request = new RecordingRequest();
  request.loop = "gateway-proxy-0";
  request.target = { kind: "backend", weight: 1, filters, authority: "shop.internal" } as never;
  expect(request.run(requestFilters)).toBe("continue");
  const { headers = [], path, body } = request.outgoing?.request ?? {};
  expect({ path, body }).toEqual({ path: "/items", body: undefined });
  const fields = Object.fromEntries(headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1]]] : [])));
  expect(fields).toMatchObject({ host: "shop.internal", "x-team": "blue", "cdn-loop": "gateway-proxy-0" });
});

test("a request without a body needs no preparation", () => {
  const request = new RecordingRequest();
  const target = { kind: "backend", weight: 1, ai: undefined } as never;
  request.outgoing = {
    target,
    usageEdit: undefined,
    request: { method: "GET", path: "/items", headers: [], body: undefined, upgrade: undefined },
  };
  expect(request.run(prepareBody)).toBe("continue");
});

test("a stage that needs what no stage before it has prepared fails", () => {
  expect(() => new RecordingRequest().run(requestFilters)).toThrow("none before it picks one");
  expect(() => new RecordingRequest().run(prepareBody)).toThrow("none before it prepares one");
});
