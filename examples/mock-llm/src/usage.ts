/** Computes the reported usage: the counted tokens, unless the request sets other or invalid figures. */
import type { UsageFault, ReplyOptions } from "./reply-options.ts";

export interface Usage {
  readonly prompt: number;
  readonly completion: number;
  readonly total: number;
}

/** A total without parts keeps the counted prompt, up to the total. */
export function usageOf(
  options: ReplyOptions,
  counted: { readonly prompt: number; readonly completion: number },
): Usage {
  const { promptTokens, completionTokens, totalTokens } = options;
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

/**
 * Returns the member with the usage of a response in some dialect, with the requested defect in each of its figures.
 *
 * @param name of the member
 */
export function usageMember(
  figures: object,
  fault: UsageFault | undefined,
  name = "usage",
): Readonly<Record<string, unknown>> {
  if (fault === undefined) return { [name]: figures };
  if (fault === "none") return {};
  if (fault === "null") return { [name]: null };
  return { [name]: Object.fromEntries(Object.keys(figures).map((figure) => [figure, faultyFigures[fault]])) };
}
