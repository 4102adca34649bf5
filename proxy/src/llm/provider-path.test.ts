import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { mayBeCompletions, pathNamesOtherModel, queryNamesOtherModel } from "./provider-path.ts";

describe("mayBeCompletions", () => {
  test.each([
    "/v1/chat/completions",
    "/v1/completions",
    "/chat/completions/",
    "/V1/Chat/Completions?x=1",
    "/v1/chat%2Fcompletions",
    "/v1/chat%252fcompletions",
    "/v1/chat%5Ccompletions",
    "/v1\\chat\\completions",
    "/v1/chat/completions;a=b",
    "/v1/chat;a=b/completions",
    "/v1/chat/completions%3Fx",
    "/v1/chat/completions%2F..%2Fcompletions",
    "/v1/chat/compl%65tions",
    "/v1/chat/completions%20",
    "/v1/completions/x",
    // llama.cpp
    "/completion",
    "/openai/deployments/x/chat/completions?api-version=1",
    // More layers than are decoded.
    "/%25252525252F",
  ])("%s", (path) => {
    expect(mayBeCompletions(path)).toBe(true);
  });

  test.each(["/v1/responses", "/v1/messages?x=/chat/completions", "/v1/embeddings", "/", "/v1/files/100%25%zz"])(
    "not %s",
    (path) => {
      expect(mayBeCompletions(path)).toBe(false);
    },
  );

  test("recognizes completions with any characters escaped", () => {
    const escaped = fc
      .array(fc.integer({ min: 0, max: 3 }), { minLength: 20, maxLength: 20 })
      .map((layers) => Array.from("/v1/chat/completions", (char, at) => escapedTimes(char, layers[at] ?? 0)).join(""));
    fc.assert(fc.property(escaped, (path) => mayBeCompletions(path)));
  });
});

function escapedTimes(char: string, layers: number): string {
  const digits = char.charCodeAt(0).toString(16);
  return layers === 0 ? char : `%${"25".repeat(layers - 1)}${digits}`;
}

function namesOtherModel(path: string, model: string): boolean {
  return pathNamesOtherModel(path, model) || queryNamesOtherModel(path, model);
}

describe("the path or the query names another model", () => {
  test.each([
    "/openai/deployments/gpt-dear/chat/completions",
    "/v1beta/models/gpt-dear:generateContent",
    "/v1beta/Models%2Fgpt-dear:generateContent",
    "/v1beta/models;x/gpt-dear:generateContent",
    "/v1beta/models/gpt-cheap-not:generateContent",
    "/v1beta/models/gpt-cheap:x/models/gpt-dear:generateContent",
    "/model/gpt-dear/invoke",
    "/v1/realtime?model=gpt-dear",
    "/v1/realtime?x=1&Model=gpt-dear",
    "/v1/realtime?m%6Fdel=gpt-dear",
    "/v1/realtime?model=gpt-cheap&model=gpt-dear",
    "/v1/realtime?x=1;model=gpt-dear",
    "/v1/realtime?model[]=gpt-dear",
    "/v1/realtime?deployment=gpt-dear",
    "/v1/realtime?model",
  ])("%s", (path) => {
    expect(namesOtherModel(path, "gpt-cheap")).toBe(true);
  });

  test.each([
    "/v1/chat/completions",
    "/v1/models",
    "/v1/models/",
    "/v1/models/gpt-cheap",
    "/openai/deployments/gpt-cheap/chat/completions?api-version=1",
    "/v1beta/models/gpt%2Dcheap:generateContent",
    "/v1/realtime?model=gpt-cheap",
    "/engines/v1/chat/completions?modeling=1",
  ])("not %s", (path) => {
    expect(namesOtherModel(path, "gpt-cheap")).toBe(false);
  });

  test("accepts a model name with a slash", () => {
    expect(namesOtherModel("/models/meta%2Fllama/invoke", "meta/llama")).toBe(false);
    expect(namesOtherModel("/models/meta/other/invoke", "meta/llama")).toBe(true);
  });
});
