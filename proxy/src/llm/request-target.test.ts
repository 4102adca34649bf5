import { expect, test } from "vitest";
import { modelOfTarget, withRealtimeModel, withTargetModel } from "./request-target.ts";

test.each([
  ["/v1/chat/completions", undefined],
  ["/v1beta/models/gemini-2.5-flash:generateContent", "gemini-2.5-flash"],
  ["/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", "gemini-2.5-flash"],
  ["/v1beta/tunedModels/mine:generateContent", "mine"],
  ["/model/anthropic.claude-sonnet-4-20250514-v1%3A0/converse", "anthropic.claude-sonnet-4-20250514-v1:0"],
  [
    "/model/arn:aws:bedrock:eu-west-1:1:inference-profile/eu.x-v1:0/invoke",
    "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.x-v1:0",
  ],
  ["/openai/deployments/prod-4o/chat/completions?api-version=2024-10-21", "prod-4o"],
  ["/openai/deployments/prod%2D4o/chat/completions", "prod-4o"],
  ["/v1/models/gpt-4", undefined],
  ["/v1beta/models/a;b:generateContent", undefined],
  ["/v1beta//models/a:generateContent", undefined],
  ["/v1/realtime", undefined],
  ["/v1/realtime?model=", undefined],
  ["/v1/realtime?model=gpt-realtime", "gpt-realtime"],
  ["/v1/realtime?model=gpt-realtime&model=gpt-realtime", "gpt-realtime"],
  ["/openai/realtime?api-version=2025-04-01&Deployment=prod%2Drt", "prod-rt"],
  ["/v1/chat/completions?model=gpt-realtime", undefined],
])("the target %s names the model %s", (path, name) => {
  expect(modelOfTarget(path)).toEqual({ name });
});

test.each(["/v1/realtime?model=a&model=b", "/v1/realtime?model=a;model=b", "/v1/realtime?model=a&deployment=b"])(
  "the target %s names two models",
  (path) => {
    expect(modelOfTarget(path)).toBe("twoModels");
  },
);

test.each([
  ["/v1/chat/completions", "a", { requestModel: "a" }],
  ["/v1beta/models/a:generateContent", undefined, { requestModel: "a" }],
  ["/v1beta/models/a:embedContent", "models/a", { requestModel: "a" }],
  ["/openai/deployments/a/chat/completions", "a", { requestModel: "a" }],
  ["/openai/deployments/a/chat/completions", "b", "twoModels"],
  ["/model/a/invoke", "b", "twoModels"],
])("the target %s with the model %s in the body is for %o", (path, requestModel, expected) => {
  expect(withTargetModel({ requestModel }, path)).toEqual(expected);
});

test.each([
  ["/v1/realtime?model=fast&voice=a%20b", "/v1/realtime?model=gpt%2Frt&voice=a%20b"],
  ["/openai/realtime?api-version=1&deployment=fast", "/openai/realtime?api-version=1&deployment=gpt%2Frt"],
  ["/v1/realtime?x=1;MODEL=fast", "/v1/realtime?x=1&MODEL=gpt%2Frt"],
  ["/v1/realtime", "/v1/realtime"],
  ["/v1/responses?model=fast", "/v1/responses?model=fast"],
])("%s becomes %s for another model", (path, expected) => {
  expect(withRealtimeModel(path, "gpt/rt")).toBe(expected);
});
