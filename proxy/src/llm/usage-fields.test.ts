import { describe, expect, test } from "vitest";
import type { UsageOutcome } from "../ir/usage.ts";
import { usageOfFields } from "./usage-fields.ts";
import { createUsageReader, type Ending, type ResponseHead } from "./usage-reader.ts";

const json = { status: 200, contentType: "application/json" };

/** Reads a plain response, whose outcome must be known when `end` returns. */
function read(head: ResponseHead, chunks: readonly (string | Uint8Array)[], ending: Ending = "whole") {
  const reader = createUsageReader(head);
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  const outcomes: UsageOutcome[] = [];
  reader.end(ending, (outcome) => outcomes.push(outcome));
  return outcomes[0];
}

describe("with the usage in the fields of the response", () => {
  const fields = usageOfFields([
    ...["content-type", "application/json", "X-Amzn-Bedrock-Input-Token-Count", "12"],
    ...["x-amzn-bedrock-output-token-count", "34", "x-amzn-bedrock-cache-read-input-token-count", "5"],
  ]);
  const head = { ...json, requestBytes: 400, ...(fields !== undefined && { usage: fields }) };

  test("counts it where the body has none", () => {
    expect(read(head, [JSON.stringify({ generation: "yes", stop_reason: "stop" })])).toEqual({
      kind: "counted",
      usage: { input: 17, output: 34, total: 51, cachedInputTokens: 5, estimated: false },
    });
  });

  test("prefers the figures of the body", () => {
    const body = { content: [], usage: { input_tokens: 12, output_tokens: 40, cache_read_input_tokens: 5 } };
    expect(read(head, [JSON.stringify(body)])).toMatchObject({ usage: { input: 17, output: 40, total: 57 } });
  });

  test.each(["", "-1", "1.5", "1e3", "x", "99999999999", "1, 2"])("does not count %j", (value) => {
    const usage = usageOfFields(["x-amzn-bedrock-input-token-count", value]);
    expect(usage).toBeDefined();
    expect(read({ ...json, requestBytes: 40, ...(usage !== undefined && { usage }) }, ["{}"])).toMatchObject({
      usage: { estimated: true },
    });
  });

  test("finds none in other fields", () => {
    expect(usageOfFields(["x-amzn-bedrock-invocation-latency", "640", "content-length", "12"])).toBeUndefined();
  });
});
