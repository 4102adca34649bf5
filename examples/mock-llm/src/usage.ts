/** What an answer is said to have cost: counted, unless the request wishes for other figures or for a wrong one. */
import type { UsageFault, Wishes } from "./wishes.ts";

export interface Usage {
  readonly prompt: number;
  readonly completion: number;
  readonly total: number;
}

/** A wished total without parts leaves the counted prompt as it is, as far as the total goes. */
export function usageOf(wishes: Wishes, counted: { readonly prompt: number; readonly completion: number }): Usage {
  const { promptTokens, completionTokens, totalTokens } = wishes;
  if (totalTokens === undefined) {
    const prompt = promptTokens ?? counted.prompt;
    const completion = completionTokens ?? counted.completion;
    return { prompt, completion, total: prompt + completion };
  }
  const prompt = promptTokens ?? Math.min(counted.prompt, totalTokens);
  return { prompt, completion: completionTokens ?? Math.max(0, totalTokens - prompt), total: totalTokens };
}

const faultyFigures: Readonly<Record<Exclude<UsageFault, "none" | "null">, unknown>> = {
  negative: -5,
  fraction: 1.5,
  string: "12",
  huge: 1e308,
};

/** The member `usage` of an answer in some dialect, with the wished fault in each of its figures. */
export function usageMember(figures: object, fault: UsageFault | undefined): { readonly usage?: unknown } {
  if (fault === undefined) return { usage: figures };
  if (fault === "none") return {};
  if (fault === "null") return { usage: null };
  return { usage: Object.fromEntries(Object.keys(figures).map((name) => [name, faultyFigures[fault]])) };
}
