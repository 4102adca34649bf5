/** What an LLM response is known to have cost; made by `llm`, charged by `policy`, shown by `telemetry`. */

/** Tokens of one LLM response, as its `usage` told, or estimated. */
export interface TokenUsage {
  readonly input?: number;
  readonly output?: number;
  readonly total: number;
  /** The model that answered, by its own word. */
  readonly model?: string;
  /** True when the upstream did not report everything and a figure is bytes ÷ 4. */
  readonly estimated: boolean;
}

/** Why a response adds nothing to a token budget; a closed set, fit for a metric label. */
export type UncountedReason =
  /** The response says nothing of its usage, and nothing was asked with a body that a model could have answered. */
  | "absent"
  /** It is the copy of an answer that was charged when it was made. */
  | "stored"
  /** It has a usage whose figures are no whole numbers from 0 to 2³¹ − 1. */
  | "malformed"
  /** Its content encoding is unknown or its bytes do not follow it, so nothing could be read. */
  | "undecodable"
  /** The status is 400 or above and there is no usage: nothing was spent. */
  | "errorStatus";

/** What reading one response came to. */
export type UsageOutcome =
  | { readonly kind: "counted"; readonly usage: TokenUsage }
  | { readonly kind: "uncounted"; readonly reason: UncountedReason };

/**
 * What a client sees of the usage event of a stream that the gateway asked for (ProxyPolicy
 * `spec.traffic.rateLimit.usageChunk`, Backend `spec.ai.usageChunk`). `Merge`: the usage is in the last chunk that has a
 * choice. `Pass`: the event passes as the provider sends it. `Hide`: it is cut.
 */
export type UsageChunk = "Merge" | "Pass" | "Hide";

/** Where neither a policy nor a Backend says. */
export const defaultUsageChunk: UsageChunk = "Merge";
