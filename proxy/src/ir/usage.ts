/** The usage of LLM responses; computed by `llm`, charged by `policy`, reported by `telemetry`. */

/** The tokens of one LLM response, as reported in its `usage` or estimated. */
export interface TokenUsage {
  /** The whole input, with what was read from or written to a cache. */
  readonly input?: number;
  /** The whole output, with the reasoning. */
  readonly output?: number;
  readonly total: number;
  /** The part of `input` that was read from a cache of the provider; absent if it was not reported. */
  readonly cachedInputTokens?: number;
  /** The part of `input` that was written to a cache of the provider; absent if it was not reported. */
  readonly cacheCreationTokens?: number;
  /** The part of `output` that is reasoning; absent if it was not reported. */
  readonly reasoningTokens?: number;
  /** The model that the response reports. */
  readonly model?: string;
  /** What the tokens cost, in micro-units of the currency; absent if the Backend has no price for the model. */
  readonly cost?: number;
  /** The currency of the cost; absent if the Backend does not name it. */
  readonly currency?: string;
  /** True where the upstream did not report every figure, and one is an estimate of bytes ÷ 4. */
  readonly estimated: boolean;
}

/** The reason for which a response adds nothing to a token limit; a closed set, suitable as a metric label. */
export type UncountedReason =
  /** The response reports no usage, and the request had no body that a model could have processed. */
  | "absent"
  /** The response is a stored copy of one that was charged when it was generated. */
  | "stored"
  /** Its usage has figures that are not integers from 0 to 2³¹ − 1. */
  | "malformed"
  /** Its content encoding is unknown or its bytes are invalid, so nothing could be read. */
  | "undecodable"
  /** The status is 400 or above, and there is no usage. */
  | "errorStatus";

/** The outcome of reading one response. */
export type UsageOutcome =
  | { readonly kind: "counted"; readonly usage: TokenUsage }
  | { readonly kind: "uncounted"; readonly reason: UncountedReason };

/**
 * How the usage event of a stream reaches a client that did not request it (ProxyPolicy
 * `spec.traffic.rateLimit.usageChunk`, Backend `spec.ai.usageChunk`). `Merge`: the usage is in the last chunk that has
 * a choice. `Pass`: the event passes as the provider sends it. `Hide`: it is removed.
 */
export type UsageChunk = "Merge" | "Pass" | "Hide";

/** The value where neither a policy nor a Backend has one. */
export const defaultUsageChunk: UsageChunk = "Merge";
