import { expect, test } from "vitest";
import { hasNoModel, llmRequestNames, readLlmRequest } from "./llm-request.ts";
import { readJson } from "./request-json.ts";

const read = (body: string) => readLlmRequest(readJson(Buffer.from(body), llmRequestNames));

test.each([
  ['{"model":"gpt-5","stream":true}', "gpt-5", true],
  ['{"messages":[{"model":"no"}],"model":"gpt-5"}', "gpt-5", false],
  ['{"model":"gpt","Model":"gpt"}', "gpt", false],
  ['{"model":"g\\u0070t"}', "gpt", false],
  ['{"model":7,"stream":"true"}', undefined, false],
  ["{}", undefined, false],
  ['\ufeff{"model":"gpt"}', "gpt", false],
  ['{"Model":"gpt","STREAM":true}', "gpt", true],
])("%s", (body, requestModel, streaming) => {
  expect(read(body)).toMatchObject({ requestModel, streaming });
});

test.each(["", "--x\r\ncontent-disposition: form-data"])("%j has no model", (body) => {
  expect(hasNoModel(Buffer.from(body))).toBe(true);
});

test.each([
  ["model=gpt", "notObject"],
  ["[1]", "notObject"],
  ['{"model":"gpt', "notObject"],
  ['{"model":"first","model":"last"}', "twoModels"],
  ['{"model":"first","MODEL":null}', "twoModels"],
  ['{"model":"gpt",}', "notObject"],
  [`{${'"model":"gpt",'.repeat(9)}"x":0}`, "repeated"],
])("%s is ambiguous", (body, why) => {
  expect(hasNoModel(Buffer.from(body))).toBe(false);
  expect(read(body)).toBe(why);
});

test("a text that is too long is not a model name", () => {
  expect(read(JSON.stringify({ model: "x".repeat(1_000) }))).toHaveProperty("requestModel", "x".repeat(1_000));
  expect(read(JSON.stringify({ model: "x".repeat(10_000) }))).toHaveProperty("requestModel", undefined);
});
