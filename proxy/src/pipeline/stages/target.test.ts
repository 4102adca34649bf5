import { expect, test } from "vitest";
import { redirectTarget, RecordingRequest } from "../testing/recording-request.ts";
import { redirect } from "./redirect.ts";
import { pickTarget, requireBackend } from "./target.ts";

test("the next target of the rule is picked", () => {
  const target = { kind: "invalid", weight: 1 } as const;
  const request = new RecordingRequest({ rule: { pick: () => target } });
  expect(request.run(pickTarget)).toBe("continue");
  expect(request.target).toBe(target);
});

test("a rule without a target gets a 500", () => {
  const request = new RecordingRequest();
  request.run(pickTarget);
  expect(request.run(requireBackend)).toBe("responded");
  expect(request.calls).toEqual(["reply InvalidBackend"]);
});

test("an invalid reference gets a 500", () => {
  const request = new RecordingRequest();
  request.target = { kind: "invalid", weight: 1 };
  expect(request.run(requireBackend)).toBe("responded");
  expect(request.calls).toEqual(["reply InvalidBackend"]);
});

test("the redirect of a reference is the response", () => {
  const request = new RecordingRequest();
  request.target = redirectTarget();
  expect(request.run(requireBackend)).toBe("responded");
  expect(request.calls).toEqual(["respond 301"]);
  expect(request.headers).toEqual([["location", "https://shop.example.com/items"]]);
});

test("the redirect of a rule is the response", () => {
  const request = new RecordingRequest({ rule: { redirect: redirectTarget() } });
  expect(request.run(redirect)).toBe("responded");
  expect(request.headers).toEqual([["location", "https://shop.example.com/items"]]);
});

test("a backend without endpoints gets a 503, and is on the record", () => {
  const request = new RecordingRequest();
  const backend = { backend: { key: "Service/default/shop:80" }, pools: [] };
  request.target = { kind: "backend", weight: 1, backend } as never;
  expect(request.run(requireBackend)).toBe("responded");
  expect(request.calls).toEqual(["reply NoReadyEndpoint"]);
  expect(request.record.backend).toBe("Service/default/shop:80");
});
