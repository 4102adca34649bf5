/** What expressions see of an LLM request and its response. */

/** Each field is undefined until it is known, and where the request or its response does not say. */
export interface LlmView {
  /** As the client asked for it. */
  readonly requestModel?: string | undefined;
  /** Whether the client asked for a stream. */
  readonly streaming?: boolean | undefined;
  /** The model that answered, by its own word. */
  readonly responseModel?: string | undefined;
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  readonly totalTokens?: number | undefined;
}
