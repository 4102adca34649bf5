import { describe, expect, test } from "vitest";
import { maxTokens, UsageTally } from "./usage.ts";

function outcome(...reports: readonly unknown[]) {
  const tally = new UsageTally();
  for (const report of reports) tally.add(report);
  return tally.reported();
}

const counted = (usage: object) => ({ kind: "counted", usage: { estimated: false, ...usage } });
const absent = { kind: "uncounted", reason: "absent" };
const malformed = { kind: "uncounted", reason: "malformed" };

describe("UsageTally", () => {
  test.each([
    ["a total alone", { total_tokens: 7 }, { total: 7 }],
    [
      "the total over the sum of its parts",
      { prompt_tokens: 1, completion_tokens: 2, total_tokens: 7 },
      { input: 1, output: 2, total: 7 },
    ],
    [
      "prompt and completion without a total",
      { prompt_tokens: 1, completion_tokens: 2 },
      { input: 1, output: 2, total: 3 },
    ],
    ["input and output", { input_tokens: 4, output_tokens: 5 }, { input: 4, output: 5, total: 9 }],
    [
      "what a cache took and gave as input",
      { input_tokens: 1, cache_creation_input_tokens: 10, cache_read_input_tokens: 100, output_tokens: 5 },
      { input: 111, output: 5, total: 116, cachedInputTokens: 100, cacheCreationTokens: 10 },
    ],
    [
      "figures of a cache once that the input and the total contain",
      {
        ...{ prompt_tokens: 111, completion_tokens: 5, total_tokens: 116 },
        ...{ cache_creation_input_tokens: 10, cache_read_input_tokens: 100 },
      },
      { input: 111, output: 5, total: 116, cachedInputTokens: 100, cacheCreationTokens: 10 },
    ],
    [
      "what OpenAI's models read from a cache and reasoned",
      {
        ...{ prompt_tokens: 40, completion_tokens: 30, total_tokens: 70 },
        prompt_tokens_details: { cached_tokens: 32 },
        completion_tokens_details: { reasoning_tokens: 20 },
      },
      { input: 40, output: 30, total: 70, cachedInputTokens: 32, reasoningTokens: 20 },
    ],
    [
      "Gemini's reasoning as output, without a total",
      { promptTokenCount: 4, candidatesTokenCount: 2, thoughtsTokenCount: 3 },
      { input: 4, output: 5, total: 9, reasoningTokens: 3 },
    ],
    [
      "parts only up to the whole",
      {
        ...{ input_tokens: 4, output_tokens: 2 },
        ...{ input_tokens_details: { cached_tokens: 9 }, output_tokens_details: { reasoning_tokens: 9 } },
      },
      { input: 4, output: 2, total: 6, cachedInputTokens: 4, reasoningTokens: 2 },
    ],
    [
      "a report with bad parts, which it leaves out",
      { input_tokens: 4, output_tokens: 2, input_tokens_details: { cached_tokens: -1 }, output_tokens_details: "x" },
      { input: 4, output: 2, total: 6 },
    ],
    [
      "the prompt cache of DeepSeek",
      { prompt_tokens: 9, completion_tokens: 1, prompt_cache_hit_tokens: 8, prompt_cache_miss_tokens: 1 },
      { input: 9, output: 1, total: 10, cachedInputTokens: 8 },
    ],
    ["input alone", { prompt_tokens: 8 }, { input: 8, total: 8 }],
    [
      "figures that are null as not given",
      { total_tokens: null, input_tokens: 2, output_tokens: null },
      { input: 2, total: 2 },
    ],
    ["zero", { total_tokens: 0 }, { total: 0 }],
    ["the largest figure", { total_tokens: maxTokens }, { total: maxTokens }],
    [
      "a good total beside bad parts, which it leaves out",
      { prompt_tokens: -1, completion_tokens: 2, total_tokens: 9 },
      { output: 2, total: 9 },
    ],
  ])("counts %s", (_name, usage, expected) => {
    expect(outcome(usage)).toEqual(counted(expected));
  });

  test.each([
    ["negative", -1],
    ["fractional", 1.5],
    ["a string", "12"],
    ["above the bound", maxTokens + 1],
    ["absurd", 1e308],
    ["infinite", Number.POSITIVE_INFINITY],
    ["not a number", Number.NaN],
    ["a boolean", true],
    ["an object", {}],
  ])("does not count a figure that is %s", (_name, figure) => {
    expect(outcome({ total_tokens: figure, prompt_tokens: 1, completion_tokens: 1 })).toEqual(malformed);
    expect(outcome({ prompt_tokens: figure, completion_tokens: 1 })).toEqual(malformed);
    expect(outcome({ input_tokens: 1, cache_read_input_tokens: figure })).toEqual(malformed);
    expect(outcome({ input_tokens: 1, output_tokens: figure })).toEqual(malformed);
  });

  test("does not count parts whose sum exceeds the bound", () => {
    expect(outcome({ input_tokens: maxTokens, output_tokens: 1 })).toEqual(malformed);
  });

  test.each([[null], [{}], [{ type: "duration", seconds: 3 }], [{ total_tokens: null }]])("ignores %j", (usage) => {
    expect(outcome(usage)).toEqual(absent);
  });

  test.each([["12"], [12], [[1]], [true]])("does not count a usage that is %j", (usage) => {
    expect(outcome(usage)).toEqual(malformed);
  });

  test("replaces the figures that a later report contains", () => {
    expect(outcome({ input_tokens: 25, output_tokens: 1 }, { output_tokens: 15 })).toEqual(
      counted({ input: 25, output: 15, total: 40 }),
    );
  });

  test("keeps a valid report when an invalid or empty one follows", () => {
    expect(outcome({ total_tokens: 5 }, { total_tokens: -5 }, "x", null, {})).toEqual(counted({ total: 5 }));
  });

  test("estimates the output of a message that was only opened, and keeps its reported input", () => {
    const tally = new UsageTally();
    tally.add({ input_tokens: 25, output_tokens: 1 }, true);
    expect(tally.estimated(7, 30)).toEqual(counted({ input: 25, output: 30, total: 55, estimated: true }));
  });

  test("never estimates less output than was reported", () => {
    const tally = new UsageTally();
    tally.add({ input_tokens: 25, output_tokens: 9 }, true);
    expect(tally.estimated(7, 1)).toEqual(counted({ input: 25, output: 9, total: 34, estimated: true }));
  });

  test("estimates input and output of which nothing was reported", () => {
    expect(new UsageTally().estimated(7, 3)).toEqual(counted({ input: 7, output: 3, total: 10, estimated: true }));
  });

  test("is settled when the upstream has reported valid figures for the whole response", () => {
    const tally = new UsageTally();
    expect(tally.isSettled).toBe(false);
    tally.add({ input_tokens: 25 }, true);
    expect(tally.isSettled).toBe(false);
    tally.add({ total_tokens: -5 });
    expect(tally.isSettled).toBe(false);
    tally.add({ output_tokens: 5 });
    expect(tally.isSettled).toBe(true);
  });

  test("names the model by the last valid report of the upstream", () => {
    const tally = new UsageTally();
    tally.add({ total_tokens: 1 });
    for (const model of ["gpt-1", 5, null, "", "x".repeat(257)]) tally.setModel(model);
    expect(tally.reported()).toEqual(counted({ total: 1, model: "gpt-1" }));
  });
});
