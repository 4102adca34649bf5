import { describe, expect, test } from "vitest";
import { mayDeferWork } from "./deferred-work.ts";
import { isListedEndpoint, hasNoStreamOptions, modelEndpoints, servesModel, withModel } from "./model-endpoints.ts";

const paths = modelEndpoints.flatMap((endpoints) => endpoints.paths.map((path) => ({ path, endpoints })));
const made = (path: string, name: string): string => `/${path.replace("{model}", name).replaceAll("*", "some")}`;

describe("every endpoint of the table", () => {
  test.each(paths)("$path", ({ path, endpoints }) => {
    const mine = made(path, "gpt-cheap");
    expect(isListedEndpoint(mine)).toBe(true);
    expect(isListedEndpoint(`/any/thing${mine}/?x=..%2F`)).toBe(true);
    expect(mayDeferWork(mine)).toBe(false);
    const isPartOfName = path.endsWith("*/{model}");
    expect(servesModel(mine, "gpt-cheap")).toBe(endpoints.model !== "elsewhere" && !isPartOfName);
    expect(servesModel(made(path, "gpt-dear"), "gpt-cheap")).toBe(endpoints.model === "body");
  });
});

describe("isListed", () => {
  test.each([
    "/",
    "/v1/chat/completions",
    "/openai/deployments/x/chat/completions?api-version=1",
    "/model/anthropic.claude-3-v1%3A0/converse",
    "/model/anthropic.claude-3-v1%3A0/converse-stream",
    "/model/anthropic.claude-3-v1%3A0/invoke-with-response-stream",
    "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2Feu.anthropic.claude-v1%3A0/converse",
    "/model/arn:aws:bedrock:r:a:inference-profile%2Fx/invoke",
    "/client/v4/accounts/a/ai/run/@cf/meta/llama",
    "/v2/ENDPOINT/openai/v1/chat/completions",
  ])("%s", (path) => {
    expect(isListedEndpoint(path)).toBe(true);
  });

  test.each([
    "/v1/ask",
    "/v1/workflows/run",
    "/v1/chat/completions/..",
    "/v1/chat/completions/../batches",
    "/v1/batches/..%2f..%2fchat/completions",
    "/v1/batches;/chat/completions",
    "/v1/x\\chat/completions",
    "/v1//chat/completions",
    "/v1/chat/completions/x",
    "/v1/load_lora_adapter",
    "/xchat/xcompletions",
    "/v1/chat/completions%00",
    "/v1/chat/completions%3Fx",
    "/v2/repository/models/m/load",
    "/endpoints/e/invocations-response-stream",
  ])("not %s", (path) => {
    expect(isListedEndpoint(path)).toBe(false);
  });
});

describe("takesModel", () => {
  test.each([
    "/v1/chat/completions",
    "/chat/completions",
    "/api/v1/chat/completions",
    "/openai/v1/responses",
    "/v1beta/openai/chat/completions",
    "/models/chat/completions?api-version=1",
    "/engines/v1/chat/completions",
    "/serving-endpoints/chat/completions",
    "/openai/deployments/gpt-cheap/chat/completions",
    "/v1beta/models/gpt-cheap:generateContent",
    "/v1beta/models/gpt%2Dcheap:generateContent",
    "/model/gpt-cheap/invoke",
    "/invocations",
    "/serving-endpoints/gpt-cheap/invocations",
  ])("%s", (path) => {
    expect(servesModel(path, "gpt-cheap")).toBe(true);
  });

  test.each([
    "/engines/gpt-dear/chat/completions",
    "/v1/engines/gpt-dear/completions",
    "/openai/deployments/gpt-dear/chat/completions",
    "/openai/deployments/%00/chat/completions",
    "/openai/deployments/gpt-cheap/../gpt-dear/chat/completions",
    "/openai/deployments/gpt-cheap/x/chat/completions",
    "/endpoints/gpt-dear/invocations",
    "/serving-endpoints/gpt-dear/invocations",
    "/v1/tunedModels/gpt-dear:generateContent",
    "/accounts/a/ai/run/@cf/meta/gpt-dear",
    "/ai/run/@cf/meta/gpt-dear",
    "/v1/models/gpt-cheap/gpt-dear:generateContent",
    "/v1/models/gpt-cheap:x:generateContent",
    "/v1/models/gpt-cheaper:generateContent",
    "/v1/models/gpt-cheap%252Fx:generateContent",
    "/v2/ENDPOINT/openai/v1/chat/completions",
    "/gpt-dear/v1/chat/completions",
    "/v1/agents/completions",
  ])("not %s", (path) => {
    expect(servesModel(path, "gpt-cheap")).toBe(false);
  });

  test("accepts a model name with slashes", () => {
    expect(servesModel("/ai/run/@cf/meta/llama", "@cf/meta/llama")).toBe(true);
    expect(servesModel("/ai/run/@cf/meta/llama-2", "@cf/meta/llama")).toBe(false);
    expect(servesModel("/hf-inference/models/meta/llama", "meta/llama")).toBe(true);
  });
});

describe("hasNoStreamOptions", () => {
  test.each([
    "/v1/messages",
    "/anthropic/v1/messages/?beta=true",
    "/v1/responses",
    "/api/chat",
    "/v2/chat",
    "/generate",
    "/v1/projects/p/locations/l/publishers/anthropic/models/claude@1:streamRawPredict",
    "/v1/images/generations",
  ])("%s", (path) => {
    expect(hasNoStreamOptions(path)).toBe(true);
  });

  test.each([
    "/v1/chat/completions",
    "/invocations",
    "/models/x/invocations",
    "/serving-endpoints/x/invocations",
    "/v1%2Fmessages",
    "/v1/messages;x",
    "/invocations/../v1/messages",
    "/v1/publishers/mistralai/models/x:streamRawPredict",
    "/v1/ask",
  ])("not %s", (path) => {
    expect(hasNoStreamOptions(path)).toBe(false);
  });
});

describe("withModel", () => {
  test.each([
    ["/openai/deployments/a/chat/completions?api-version=1", "/openai/deployments/b/chat/completions?api-version=1"],
    ["/v1beta/models/a:generateContent", "/v1beta/models/b:generateContent"],
    ["/v1beta/models/a%3AstreamGenerateContent?alt=sse", "/v1beta/models/b:streamGenerateContent?alt=sse"],
    ["/model/a%3A0/converse-stream", "/model/b/converse-stream"],
    ["/model/arn%3Aaws%3Abedrock%3A%3A1%3Aprofile%2Fa%3A0/invoke", "/model/b/invoke"],
    ["/model/b/invoke", "/model/b/invoke"],
    ["/v1/chat/completions", "/v1/chat/completions"],
    ["/v1beta/models/a/models/a:generateContent", "/v1beta/models/a/models/a:generateContent"],
    ["/nothing", "/nothing"],
  ])("changes %s to %s", (path, expected) => {
    expect(withModel(path, "b")).toBe(expected);
  });

  test("escapes the name, and names it as the most tolerant server reads it", () => {
    const model = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.b-v1:0";
    const path = withModel("/model/a/converse", model);
    expect(path).toBe("/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Feu.b-v1%3A0/converse");
    expect(servesModel(path, model)).toBe(true);
    expect(withModel("/openai/deployments/a/chat/completions", "$1$&")).toBe(
      "/openai/deployments/%241%24%26/chat/completions",
    );
  });
});
