/** What responses show of the limits of a ProxyPolicy (`spec.traffic.rateLimit.headers` and `denied`). */

/**
 * A family of response headers with the state of limits. `XRateLimit`: `x-ratelimit-limit`, `-remaining` and `-reset`.
 * `Ietf`: `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers). `OpenAI`:
 * `x-ratelimit-limit-requests`, `x-ratelimit-limit-tokens`, and the same for `remaining` and `reset`.
 */
export type HeaderFamily = "XRateLimit" | "Ietf" | "OpenAI";

/** The families of a policy that names none. */
export const defaultHeaderFamilies: readonly HeaderFamily[] = ["XRateLimit"];

/** The response to a request that a policy denies. */
export interface DeniedResponse {
  /**
   * The form of the body. `Text`: plain text. `Problem`: a problem (RFC 9457). `Provider`: the error object of the API
   * that the client uses, or a problem if that is unknown.
   */
  readonly format: "Text" | "Problem" | "Provider";
  /** 400 to 599; absent: 429. */
  readonly status?: number;
  /**
   * The text of the body, of the problem's `detail`, or of the error's message. Absent: a text of the gateway or
   * service.
   */
  readonly body?: string;
  /**
   * Further fields, as alternating names in lower case and values. They replace those of the format and of a service.
   */
  readonly headers?: readonly string[];
}

/** What responses show of a limit. Both are absent in policies that keep the defaults. */
export interface LimitResponses {
  /** Absent: `defaultHeaderFamilies`. Empty: none. */
  readonly headers?: readonly HeaderFamily[];
  /** Absent: plain text with status 429. */
  readonly denied?: DeniedResponse;
}
