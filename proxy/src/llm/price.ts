/** What the tokens of a response cost, by the prices of a Backend (`spec.ai.prices`). */
import type { AiBackend, ModelPrice } from "../ir/snapshot.ts";
import type { TokenUsage } from "../ir/usage.ts";

/** The parts of an `ai` Backend on which prices depend. */
export type PricedBackend = Pick<AiBackend, "model" | "models" | "prices" | "currency">;

/** Prices are for this many tokens. */
const tokensOfPrice = 1_000_000n;

/**
 * Returns the price of a request's model: by the name that the provider gets, or else, of a Backend with `models`, by
 * the one that the client used. The name of the client does not decide the price of a prescribed model, since the
 * client could choose the lowest. Undefined if the Backend has no price for it.
 */
export function priceOf(ai: PricedBackend | undefined, clientModel: string | undefined): ModelPrice | undefined {
  const price = priceByName(ai, ai?.model ?? clientModel);
  return price ?? (ai?.models === undefined ? undefined : priceByName(ai, clientModel));
}

function priceByName(ai: PricedBackend | undefined, model: string | undefined): ModelPrice | undefined {
  const prices = ai?.prices;
  return prices !== undefined && model !== undefined && Object.hasOwn(prices, model) ? prices[model] : undefined;
}

/**
 * Returns the usage with its cost. A request that names no model with a price has the price of the model that the
 * response reports, if there is one.
 *
 * @param ai the Backend that responded; undefined for any other target.
 * @param clientModel as the client named it.
 */
export function withCost(
  usage: TokenUsage,
  ai: PricedBackend | undefined,
  clientModel: string | undefined,
): TokenUsage {
  const price = priceOf(ai, clientModel) ?? priceByName(ai, usage.model);
  if (price === undefined) return usage;
  return { ...usage, cost: costOf(usage, price), ...(ai?.currency !== undefined && { currency: ai.currency }) };
}

/**
 * Returns the cost in micro-units. The sum over all tokens is exact, and its fraction of a micro-unit is rounded up, so
 * that many small responses never cost less than their tokens. Tokens of a total that are neither input nor output have
 * the higher price of both.
 */
function costOf(usage: TokenUsage, price: ModelPrice): number {
  const { input = 0, output = 0, total, cachedInputTokens = 0, cacheCreationTokens = 0 } = usage;
  const cached = Math.min(cachedInputTokens, input);
  const created = Math.min(cacheCreationTokens, input - cached);
  const other = Math.max(0, total - input - output);
  const sum =
    BigInt(input - cached - created) * BigInt(price.input) +
    BigInt(cached) * BigInt(price.cachedInput ?? price.input) +
    BigInt(created) * BigInt(price.cacheCreation ?? price.input) +
    BigInt(output) * BigInt(price.output) +
    BigInt(other) * BigInt(Math.max(price.input, price.output));
  return Number((sum + tokensOfPrice - 1n) / tokensOfPrice);
}
