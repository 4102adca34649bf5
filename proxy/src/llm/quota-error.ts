/**
 * The error by which each API reports an exhausted limit, as its client libraries read it. A library waits for
 * `retry-after` and sends the request again, or throws the error of its own type.
 */
import type { ProviderApi } from "./provider-api.ts";

/** An exhausted limit. */
export interface ExhaustedLimit {
  readonly message: string;
  readonly counts: "requests" | "tokens";
  /** HTTP status of the response. */
  readonly status: number;
  /** Undefined if it is not known when the limit allows requests again. */
  readonly retryAfterSeconds: number | undefined;
  readonly requestId: string;
}

/** A response body with the fields that describe it or accompany it. */
export interface ErrorResponse {
  /** Names in lower case and values in turn. */
  readonly headers: readonly string[];
  readonly body: string;
}

/**
 * The longest time for which the libraries of OpenAI wait, in seconds. If it is longer, they send the request again
 * after a few seconds, when the limit denies it again.
 */
const longestWaitSeconds = 60;

/** Returns the error of an API. */
export function quotaError(api: ProviderApi, limit: ExhaustedLimit): ErrorResponse {
  switch (api) {
    case "openai":
      return openAiError(limit);
    case "anthropic":
      return anthropicError(limit);
    case "gemini":
      return geminiError(limit);
    case "bedrock":
      return bedrockError(limit);
  }
}

/** `error` of the OpenAI API, which Azure OpenAI and compatible servers have too. */
function openAiError(limit: ExhaustedLimit): ErrorResponse {
  const { message, counts } = limit;
  const error = { message, type: counts, param: null, code: "rate_limit_exceeded" };
  return { headers: ["content-type", "application/json", ...retryAdvice(limit)], body: JSON.stringify({ error }) };
}

/** `error` of the Anthropic API, with the field `request-id` that its libraries show. */
function anthropicError(limit: ExhaustedLimit): ErrorResponse {
  const { message, requestId } = limit;
  const body = { type: "error", error: { type: "rate_limit_error", message }, request_id: requestId };
  return {
    headers: ["content-type", "application/json", "request-id", requestId, ...retryAdvice(limit)],
    body: JSON.stringify(body),
  };
}

/** Whether the libraries of OpenAI and Anthropic send the request again. */
function retryAdvice({ retryAfterSeconds = Infinity }: ExhaustedLimit): readonly string[] {
  return ["x-should-retry", String(retryAfterSeconds <= longestWaitSeconds)];
}

/** `google.rpc.Status` in JSON, with `google.rpc.RetryInfo`. */
function geminiError({ message, status, retryAfterSeconds }: ExhaustedLimit): ErrorResponse {
  const retryInfo = { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${retryAfterSeconds}s` };
  const error = {
    code: status,
    message,
    status: "RESOURCE_EXHAUSTED",
    ...(retryAfterSeconds !== undefined && { details: [retryInfo] }),
  };
  return { headers: ["content-type", "application/json; charset=UTF-8"], body: JSON.stringify({ error }) };
}

/** An exception of AWS in restJson1: its type is in a field. */
function bedrockError({ message, requestId }: ExhaustedLimit): ErrorResponse {
  return {
    headers: [
      ...["content-type", "application/json"],
      ...["x-amzn-errortype", "ThrottlingException", "x-amzn-requestid", requestId],
    ],
    body: JSON.stringify({ message }),
  };
}
