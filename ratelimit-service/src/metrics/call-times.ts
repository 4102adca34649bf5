/** The number of calls that the gRPC server has decided, and their durations. One set per thread. */
import {
  type Exemplar,
  HistogramCell,
  NativeBuckets,
  type NativeCounts,
  type ObservedSpan,
} from "@gatewayproxy/runtime/metrics";

/** Upper bounds in seconds: envoyproxy/ratelimit's, and finer ones below them, where nearly all calls are. */
export const callTimeBounds: readonly number[] = [
  0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/**
 * Maximum number of single times that are sent to statsd between two flushes, with their share of all as sample rate.
 */
const maxSamples = 100;

/** The measurements of one thread: plain data that can be posted. */
export interface CallTimesSnapshot {
  readonly calls: number;
  /** Calls by bucket, with those above all bounds last, then the sum of all times in seconds. */
  readonly histogram: readonly number[];
  /** The last exemplar of each bucket, in seconds; absent: no span was exported. */
  readonly exemplars?: readonly (Exemplar | undefined)[] | undefined;
  /** The same times in exponential buckets; absent: they are not kept. */
  readonly native?: NativeCounts | undefined;
  /** Some of the times since the last snapshot, in milliseconds, and the number of all of them. */
  readonly samplesMs: readonly number[];
  readonly sampledOf: number;
}

/** The durations of the calls of one thread: a histogram, and the last 100 durations since `take`. */
export class CallTimes {
  readonly #bounds: readonly number[];
  readonly #histogram: HistogramCell;
  #calls = 0;
  #samplesMs: number[] = [];
  #sampledOf = 0;

  /** @param bounds in seconds, ascending */
  constructor(bounds: readonly number[] = callTimeBounds) {
    this.#bounds = bounds;
    this.#histogram = new HistogramCell(bounds);
  }

  /** @param span of the call, if it is exported. */
  observe(milliseconds: number, span?: ObservedSpan): void {
    this.#calls++;
    this.#histogram.observe(milliseconds / 1_000, span);
    // Keeps the newest times in a ring, without random numbers.
    this.#samplesMs[this.#sampledOf % maxSamples] = milliseconds;
    this.#sampledOf++;
  }

  /** Keeps exponential buckets from now on. */
  keepNative(): void {
    this.#histogram.native ??= new NativeBuckets(this.#bounds);
  }

  /** Returns the measurements so far, and starts new samples. */
  take(): CallTimesSnapshot {
    const [exemplars, native] = [this.#histogram.exemplars(), this.#histogram.native?.counts()];
    const snapshot = {
      calls: this.#calls,
      histogram: [...this.#histogram.data()],
      samplesMs: this.#samplesMs,
      sampledOf: this.#sampledOf,
      ...(exemplars !== undefined && { exemplars: [...exemplars] }),
      ...(native !== undefined && { native }),
    };
    this.#samplesMs = [];
    this.#sampledOf = 0;
    return snapshot;
  }
}
