/** The view that expressions have of an LLM request and its response. */

/** Each field is undefined until it is known, and if the request or its response does not contain it. */
export interface LlmView {
  /** The model that the backend gets. */
  readonly requestModel?: string | undefined;
  /** The model as the client has named it. */
  readonly clientModel?: string | undefined;
  /** The `stream` member of the request. */
  readonly streaming?: boolean | undefined;
  /** The `model` member of the response. */
  readonly responseModel?: string | undefined;
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  readonly totalTokens?: number | undefined;
  /** The part of the input that was read from a cache of the provider. */
  readonly cachedInputTokens?: number | undefined;
  /** The part of the input that was written to a cache of the provider. */
  readonly cacheCreationTokens?: number | undefined;
  /** The part of the output that is reasoning. */
  readonly reasoningTokens?: number | undefined;
  /** What the response cost, in micro-units of the currency. */
  readonly cost?: number | undefined;
  /**
   * What the request may use at most, for entries that reserve it; absent if it generates nothing. No expression reads
   * it.
   */
  readonly estimate?: EstimatedUsage | undefined;
  /** Whether the backend has a price for the model; absent if the request may cost nothing. No expression reads it. */
  readonly isPriced?: boolean | undefined;
}

/** The usage of a response that is not known yet. */
export interface EstimatedUsage {
  readonly input?: number;
  readonly output?: number;
  readonly total: number;
  /** In micro-units of the currency; absent without a price. */
  readonly cost?: number;
  readonly estimated: boolean;
}
