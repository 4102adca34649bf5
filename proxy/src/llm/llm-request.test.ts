import { expect, test } from "vitest";
import { readLlmRequest } from "./llm-request.ts";

test.each([
  ['{"model":"gpt-5","stream":true}', "gpt-5", true],
  ['{"messages":[{"model":"no"}],"model":"gpt-5"}', "gpt-5", false],
  ['{"model":"first","model":"last"}', "last", false],
  ['{"model":"g\\u0070t"}', "gpt", false],
  ['{"model":7,"stream":"true"}', undefined, false],
  ["{}", undefined, false],
  ['\ufeff{"model":"gpt"}', "gpt", false],
  ['{"Model":"gpt","STREAM":true}', "gpt", true],
])("%s", (body, requestModel, streaming) => {
  expect(readLlmRequest(Buffer.from(body))).toEqual({ requestModel, streaming });
});

test.each(["", "model=gpt", "[1]", '{"model":"gpt'])("%s says nothing", (body) => {
  expect(readLlmRequest(Buffer.from(body))).toEqual({});
});
