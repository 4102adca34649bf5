/** How many calls the gRPC door has answered, and how long that took. One set per thread. */
import { HistogramCell } from "@gatewayproxy/runtime/metrics";

/** Upper bounds in seconds: the reference's, and finer ones below them, where nearly all calls are. */
export const callTimeBounds: readonly number[] = [
  0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** Single times that statsd is told between two flushes; it is sent their share of all. */
const maxSamples = 100;

/** What one thread has measured: plain data, fit to be posted. */
export interface CallTimesSnapshot {
  readonly calls: number;
  /** Calls by bucket, those above all bounds last, and then the sum of all times in seconds. */
  readonly histogram: readonly number[];
  /** Some of the times since the last snapshot, in milliseconds, and how many there were. */
  readonly samplesMs: readonly number[];
  readonly sampledOf: number;
}

export class CallTimes {
  readonly #histogram: HistogramCell;
  #calls = 0;
  #samplesMs: number[] = [];
  #sampledOf = 0;

  /** @param bounds in seconds, ascending */
  constructor(bounds: readonly number[] = callTimeBounds) {
    this.#histogram = new HistogramCell(bounds);
  }

  observe(milliseconds: number): void {
    this.#calls++;
    this.#histogram.observe(milliseconds / 1_000);
    // The newest of every so many, without a draw: place by place, over and over.
    this.#samplesMs[this.#sampledOf % maxSamples] = milliseconds;
    this.#sampledOf++;
  }

  /** What has been measured so far; the samples begin anew. */
  take(): CallTimesSnapshot {
    const snapshot = {
      calls: this.#calls,
      histogram: [...this.#histogram.data()],
      samplesMs: this.#samplesMs,
      sampledOf: this.#sampledOf,
    };
    this.#samplesMs = [];
    this.#sampledOf = 0;
    return snapshot;
  }
}
