/** The type of a case in the table, and functions to write one. */

/** Settings that a case may need, with the reference's defaults. */
export interface CaseSettings {
  readonly stopsAtOverLimit?: true;
  readonly shadowMode?: true;
  readonly quotaMode?: true;
  readonly strictZeroHit?: true;
  readonly dynamicMetadata?: true;
  readonly overLimitCache?: true;
  readonly headers?: "envoy" | "ratelimit";
}

export interface Case {
  readonly id: string;
  readonly requirement: string;
  readonly domain: string;
  readonly settings?: CaseSettings;
  readonly calls: readonly Call[];
}

/** One call of a case; see `notation.ts`. */
export interface Call {
  readonly ask: readonly string[];
  /** Hits of the request; the default is 0. */
  readonly hits?: number;
  /** A domain in place of the case's. */
  readonly domain?: string;
  readonly response: string;
  /** Seconds to the end of the window in the first status, and the limit's name. */
  readonly reset?: number;
  readonly name?: string;
  /** Advances the clock before the call, in seconds. */
  readonly after?: number;
  /** `name: value` of each response header. */
  readonly headers?: readonly string[];
  /** `metadata` within the dynamic metadata; null if it must be absent. */
  readonly metadata?: unknown;
}

/** The start of every case: 2,222 s after a day began, so a minute has 58 s left and an hour 1,378. */
export const caseStartSeconds = 20_000 * 86_400 + 2_222;

/** The status of a descriptor without a limit. */
export const none = "OK(–)";

/** Begins a call with these descriptors. */
export function ask(...descriptors: readonly string[]) {
  return {
    gets: (response: string, more: Omit<Call, "ask" | "response"> = {}): Call => ({
      ask: descriptors,
      response,
      ...more,
    }),
  };
}

/** Repeats a call `times` times, each with its response. */
export function repeat(times: number, call: (i: number) => Call): readonly Call[] {
  return Array.from({ length: times }, (_, i) => call(i));
}
