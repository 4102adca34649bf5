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

test("the model that the Backend prescribes takes the place of the client's", () => {
  const target = { kind: "backend", weight: 1, ai: { provider: "openai", model: "prescribed" } } as never;
  const request = new RecordingRequest({ rule: { pick: () => target } });
  request.llm = { requestModel: "small", streaming: true };
  request.run(pickTarget);
  expect(request.llm).toEqual({ requestModel: "prescribed", clientModel: "small", streaming: true });
  expect(request.record).toMatchObject({ requestModel: "prescribed", clientModel: "small", isListedModel: false });
});

test("a model that no target offers gets a 404", () => {
  const models = { listed: [], provider: undefined, pick: () => undefined };
  const request = new RecordingRequest({ rule: { models } });
  request.llm = { requestModel: "small" };
  expect(request.run(pickTarget)).toBe("responded");
  expect(request.calls).toEqual(["reply ModelNotFound"]);
  expect(request.record.clientModel).toBe("small");
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
  const backend = { backend: { key: "Service/default/shop:80" }, size: 0 };
  request.target = { kind: "backend", weight: 1, backend } as never;
  expect(request.run(requireBackend)).toBe("responded");
  expect(request.calls).toEqual(["reply NoReadyEndpoint"]);
  expect(request.record.backend).toBe("Service/default/shop:80");
});
