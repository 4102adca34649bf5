/** One fault is one test: load, the fault, its repair, and the responses to clients. */
import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { countKinds, latency, type Load, type LoadOptions, type Outcome, recoveryMs, startLoad } from "./load.ts";
import { rate } from "./rate.ts";

/** One row of the table. */
export interface Figures {
  readonly requests: number;
  /** The number of responses of each kind, the most frequent first. */
  readonly responses: readonly (readonly [string, number])[];
  readonly p99Ms: number;
  readonly slowestMs: number;
  /** From the repair to the last request that failed; 0 if none failed after it. */
  readonly recoveredMs: number;
  /** The state of the counters of limits, in words. */
  readonly counters: string;
}

declare module "vitest" {
  interface TaskMeta {
    figures?: Figures;
  }
}

export interface FaultOptions extends LoadOptions {
  readonly inject: (load: Load) => void | Promise<void>;
  /** Default: nothing to repair. */
  readonly repair?: () => void | Promise<void>;
  /** How long the fault lasts. Default 3 s. */
  readonly lastsMs?: number;
  /** Load before the fault and after its repair. Default 2 s and 4 s. */
  readonly beforeMs?: number;
  readonly afterMs?: number;
  /** Whether a request ended as without a fault. Default: status 200. */
  readonly isGood?: (outcome: Outcome) => boolean;
}

export interface FaultOutcome {
  readonly outcomes: readonly Outcome[];
  /** Of requests that began after the fault. */
  readonly since: readonly Outcome[];
  /** `performance.now()` */
  readonly faultMs: number;
  readonly repairedMs: number;
  figures(counters?: string): Figures;
}

/** Starts the load, the fault and its repair, and resolves when every request has ended. */
export async function under(options: FaultOptions): Promise<FaultOutcome> {
  const { inject, repair = () => undefined, lastsMs = 3_000, beforeMs = 2_000, afterMs = 4_000 } = options;
  const isGood = options.isGood ?? (({ status, kind }: Outcome) => status === 200 && kind === "200");
  const load = startLoad({ perSecond: rate, ...options });
  onTestFinished(() => void load.stop());
  await sleep(beforeMs);
  const faultMs = performance.now();
  await inject(load);
  await sleep(lastsMs);
  await repair();
  const repairedMs = performance.now();
  await sleep(afterMs);
  const outcomes = await load.stop();
  const since = outcomes.filter(({ startedMs, tookMs }) => startedMs + tookMs >= faultMs);
  return {
    outcomes,
    since,
    faultMs,
    repairedMs,
    figures: (counters = "–") => ({
      ...figuresOf(outcomes, since),
      recoveredMs: recoveryMs(outcomes, repairedMs, isGood),
      counters,
    }),
  };
}

/** @param since the outcomes for the latencies */
export function figuresOf(outcomes: readonly Outcome[], since = outcomes): Figures {
  return {
    requests: outcomes.length,
    responses: countKinds(outcomes),
    p99Ms: latency(since, 99),
    slowestMs: latency(since, 100),
    recoveredMs: 0,
    counters: "–",
  };
}

/** The kinds of responses that are not among `expected`. */
export function others(outcomes: readonly Outcome[], ...expected: readonly (string | RegExp)[]): readonly string[] {
  const kinds = new Set(outcomes.map(({ kind }) => kind));
  return [...kinds].filter((kind) => !expected.some((it) => (typeof it === "string" ? it === kind : it.test(kind))));
}
