import { expect, test } from "vitest";
import { apiOf } from "./provider-api.ts";

test.each([
  ["openai", "/v1/chat/completions", "openai"],
  ["openai", "/v1/anything", "openai"],
  ["openai", "/v1/threads/t/messages", "openai"],
  ["azure", "/openai/deployments/a/chat/completions?api-version=1", "openai"],
  ["azure", "/openai/v1/responses", "openai"],
  ["openaiCompatible", "/v1/messages", "anthropic"],
  ["openaiCompatible", "/v1/messages/count_tokens", "anthropic"],
  ["anthropic", "/v1/messages", "anthropic"],
  ["anthropic", "/v1/models", "anthropic"],
  ["openaiCompatible", "/v1/messages/batches/b/results", "anthropic"],
  ["openai", "/v1/audio/speech", "openai"],
  ["bedrock", "/model/a/predict", "bedrock"],
  ["anthropic", "/v1/chat/completions", "openai"],
  ["gemini", "/v1beta/models/a:streamGenerateContent?alt=sse", "gemini"],
  ["gemini", "/v1beta/models/a%3AgenerateContent", "gemini"],
  ["gemini", "/v1beta/openai/embeddings", "openai"],
  ["gemini", "/v1beta/models", "gemini"],
  ["bedrock", "/model/a%3A0/converse-stream", "bedrock"],
  ["bedrock", "/openai/v1/chat/completions", "openai"],
  ["bedrock", "/guardrail/a/version/1/apply", "bedrock"],
  [undefined, "/v1/chat/completions", "openai"],
  [undefined, "/model/a/invoke", "bedrock"],
  [undefined, "/v1beta/models/a:generateContent", "gemini"],
  // Applications have such paths, too.
  [undefined, "/v1/messages", undefined],
  [undefined, "/survey/responses", undefined],
  [undefined, "/", undefined],
] as const)("provider %s at %s: %s", (provider, path, api) => {
  expect(apiOf(provider, path, false)).toBe(api);
});

test.each(["openai", undefined] as const)("a client of Anthropic's API says so, provider %s", (provider) => {
  expect(apiOf(provider, "/v1/messages", true)).toBe("anthropic");
});

test.each([
  ["/threads/", "openai"],
  ["/model/", "openai"],
  [":predict", "gemini"],
  ["/messages", "anthropic"],
  ["/messages/batches", "anthropic"],
  ["/threads/x/messages", "openai"],
  ["a", "openai"],
  ["%3a", "openai"],
] as const)("a path of many times %s takes little time", (part, api) => {
  expect(apiOf("openai", part.repeat(100_000), false)).toBe(api);
});
