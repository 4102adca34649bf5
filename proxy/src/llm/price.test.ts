import fc from "fast-check";
import { expect, test } from "vitest";
import type { AiBackend } from "../ir/snapshot.ts";
import type { TokenUsage } from "../ir/usage.ts";
import { withCost } from "./price.ts";

const ai = (prices: AiBackend["prices"], fields: Partial<AiBackend> = {}): AiBackend => ({
  ...{ provider: "openai", ...fields },
  ...(prices !== undefined && { prices }),
});
const price = { input: 250_000, cachedInput: 25_000, cacheCreation: 300_000, output: 2_000_000 };
const usage: TokenUsage = { input: 1_000, output: 100, total: 1_100, estimated: false };

function costOf(fields: Partial<TokenUsage>, prices = price): number | undefined {
  return withCost({ ...usage, ...fields }, ai({ m: prices }), "m").cost;
}

test.each([
  ["input and output", {}, 450],
  ["cached input", { cachedInputTokens: 400 }, 360],
  ["input written to a cache", { cacheCreationTokens: 1_000 }, 500],
  ["more cached input than input", { cachedInputTokens: 2_000, cacheCreationTokens: 5 }, 225],
  ["a total beyond both, at the higher price", { total: 1_200 }, 650],
  ["a total below both", { total: 5 }, 450],
  ["a fraction, rounded up", { input: 1, output: 0, total: 1 }, 1],
  ["no tokens", { input: 0, output: 0, total: 0 }, 0],
])("costs %s", (_, fields, cost) => {
  expect(costOf(fields)).toBe(cost);
});

test("without prices of cached input it costs as much as input", () => {
  const { input, output } = price;
  expect(costOf({ cachedInputTokens: 400, cacheCreationTokens: 600 }, { input, output } as typeof price)).toBe(450);
});

test("the name for the provider decides, then an alias of the client, then the name in the response", () => {
  const prices = {
    a: { input: 1_000_000, output: 0 },
    b: { input: 2_000_000, output: 0 },
    c: { input: 3_000_000, output: 0 },
  };
  const cost = (fields: Partial<AiBackend>, client: string | undefined, model: string) =>
    withCost({ ...usage, model }, ai(prices, fields), client).cost;
  expect(cost({ model: "a" }, "b", "c")).toBe(1_000);
  expect(cost({ model: "x", models: [{ name: "b", as: "x" }] }, "b", "c")).toBe(2_000);
  // Only the operator has chosen this model.
  expect(cost({ model: "x" }, "b", "c")).toBe(3_000);
  expect(cost({}, "b", "c")).toBe(2_000);
  expect(cost({}, undefined, "c")).toBe(3_000);
  expect(cost({}, "x", "y")).toBeUndefined();
  expect(cost({}, "constructor", "__proto__")).toBeUndefined();
});

test("no sum of responses costs less than its tokens, or more than a micro-unit more for each response", () => {
  const tokens = fc.nat(2 ** 31 - 1);
  const amount = fc.nat(999_999_999_999);
  fc.assert(
    fc.property(
      fc.array(fc.record({ input: tokens, output: tokens }), { maxLength: 20 }),
      amount,
      amount,
      (responses, input, output) => {
        let cost = 0n;
        let exact = 0n;
        for (const response of responses) {
          const counted = { ...response, total: response.input + response.output, estimated: false };
          cost += BigInt(withCost(counted, ai({ m: { input, output } }), "m").cost ?? -1);
          exact += BigInt(response.input) * BigInt(input) + BigInt(response.output) * BigInt(output);
        }
        expect(cost * 1_000_000n).toBeGreaterThanOrEqual(exact);
        expect((cost - BigInt(responses.length)) * 1_000_000n).toBeLessThanOrEqual(exact);
      },
    ),
  );
});
