/** What a row of the table of cases is made of, and the words it is written in. */

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
  /** Of the request; 0 unless given. */
  readonly hits?: number;
  /** Another domain than the case's. */
  readonly domain?: string;
  readonly answer: string;
  /** Of the first status: seconds to the end of its window, and the limit's name. */
  readonly reset?: number;
  readonly name?: string;
  /** Moves the clock on, before the call, in seconds. */
  readonly after?: number;
  /** `name: value` of each response header. */
  readonly headers?: readonly string[];
  /** `metadata` within the dynamic metadata; null for absent. */
  readonly metadata?: unknown;
}

/** The moment of every case: 2,222 s after a day began, so a minute has 58 s to go and an hour 1,378. */
export const caseStartSeconds = 20_000 * 86_400 + 2_222;

/** The status of a descriptor that nothing limits. */
export const none = "OK(–)";

/** Asks for descriptors of one call. */
export function ask(...descriptors: readonly string[]) {
  return {
    gets: (answer: string, more: Omit<Call, "ask" | "answer"> = {}): Call => ({ ask: descriptors, answer, ...more }),
  };
}

/** The same call `times` times, each with its answer. */
export function repeat(times: number, call: (i: number) => Call): readonly Call[] {
  return Array.from({ length: times }, (_, i) => call(i));
}
