import { expect, test } from "vitest";
import { readLlmRequest } from "./llm-request.ts";

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
  expect(readLlmRequest(Buffer.from(body))).toEqual({ requestModel, streaming });
});

test.each(["", "--x\r\ncontent-disposition: form-data"])("%j says nothing", (body) => {
  expect(readLlmRequest(Buffer.from(body))).toEqual({});
});

test.each([
  "model=gpt",
  "[1]",
  '{"model":"gpt',
  '{"model":"first","model":"last"}',
  '{"model":"first","MODEL":null}',
  '{"model":"gpt",}',
])("%s can be read in several ways", (body) => {
  expect(readLlmRequest(Buffer.from(body))).toBeUndefined();
});
