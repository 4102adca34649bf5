import { expect, test } from "vitest";
import { type ClientApi, clientApi, modelError, modelQuery } from "./client-api.ts";

type Provider = NonNullable<Parameters<typeof clientApi>[2]>;

test.each<readonly [string, ClientApi, Provider | undefined, string]>([
  ["/v1/chat/completions", "openai", undefined, "accept"],
  ["/v1/chat/completions", "openai", "anthropic", "accept"],
  ["/v1/threads/thread_1/messages", "openai", "openaiCompatible", "accept"],
  ["/openai/deployments/a/chat/completions?api-version=1", "azure", undefined, "accept"],
  ["/openai/v1/responses", "azure", "azure", "accept"],
  ["/v1/messages", "anthropic", "openaiCompatible", "accept"],
  ["/anthropic/v1/messages/count_tokens", "anthropic", "anthropic", "accept"],
  ["/v1/models", "anthropic", undefined, "Anthropic-Version"],
  ["/v1/models", "anthropic", "anthropic", "accept"],
  ["/v1/models", "gemini", undefined, "x-goog-api-key"],
  ["/v1beta/models", "gemini", undefined, "accept"],
  ["/v1beta/models/a:generateContent", "gemini", "openai", "accept"],
  ["/v1beta/openai/models", "openai", "gemini", "accept"],
  ["/model/a/converse", "bedrock", undefined, "accept"],
  ["/v1/models", "openai", "openaiCompatible", "accept"],
  ["/anything", "openai", undefined, "accept"],
])("a request for %s is of the API %s", (path, api, provider, header) => {
  expect(clientApi(path, [header, "x"], provider)).toBe(api);
});

test.each<readonly [ClientApi, object]>([
  ["openai", { error: { type: "invalid_request_error", param: "model", code: "model_not_found" } }],
  ["anthropic", { type: "error", error: { type: "not_found_error" } }],
  ["azure", { error: { code: "DeploymentNotFound" } }],
  ["gemini", { error: { code: 404, status: "NOT_FOUND" } }],
  ["bedrock", { message: "the model does not exist, or this route does not offer it" }],
])("an unknown model has the error of %s", (api, body) => {
  const response = modelError(api, "unknown");
  expect(response.status).toBe(404);
  expect(JSON.parse(response.body)).toMatchObject(body);
  expect(response.headers.includes("ResourceNotFoundException")).toBe(api === "bedrock");
});

test.each<readonly [string, string, ReturnType<typeof modelQuery>]>([
  ["GET", "/v1/models", { name: undefined }],
  ["HEAD", "/v1/models/?limit=1", { name: undefined }],
  ["GET", "/openai/v1/models/gpt-4", { name: "gpt-4" }],
  ["GET", "/v1/models/meta-llama%2FLlama-3", { name: "meta-llama/Llama-3" }],
  ["GET", "/v1beta/models/a", { name: "a" }],
  ["POST", "/v1/models", undefined],
  ["DELETE", "/v1/models/ft:a", undefined],
  ["GET", "/models", undefined],
  ["GET", "/v1/cars/models", undefined],
  ["GET", "/v1/responses/resp_1", undefined],
])("%s %s asks for %o", (method, path, query) => {
  expect(modelQuery(method, path)).toEqual(query);
});
