/**
 * Keeps the exported counts of each series, so that points have the time at which they begin and, with delta
 * temporality, only what was counted since then. Counts of a failed export are part of the next one. Bounded by the
 * series themselves.
 */
import { countsSince, type ExponentialCounts } from "../metrics/exponential-buckets.ts";
import { countOf, type HistogramPoint, type MetricFamily, type NumberPoint } from "../metrics/metric-families.ts";
import type { Temporality } from "./metric-export-settings.ts";

/** A point with its times, in ms since the epoch. */
export interface TimedPoint<P> {
  readonly point: P;
  /** The start of what the point has counted. */
  readonly startMs: number;
  /** Exemplars before this time have been exported. */
  readonly sinceMs: number;
  /** To be called when the point has been exported. */
  readonly commit: () => void;
}

interface Series {
  /** The first count is later. */
  startMs: number;
  /** The last export; `startMs` before the first. */
  exportedMs: number;
  /** A single value for a counter. */
  counts: readonly number[];
  sum: number;
  /** The exponential buckets of `counts`. */
  native: ExponentialCounts | undefined;
  /** The collection in which it was last seen. */
  collection: number;
}

/** The exported state of all series. */
export class ExportedSeries {
  readonly #temporality: Temporality;
  readonly #series = new Map<string, Series>();
  #collection = 0;
  #atMs: number;
  #lastMs: number;

  /** @param startMs the start of the process. */
  constructor(temporality: Temporality, startMs: number) {
    this.#temporality = temporality;
    [this.#atMs, this.#lastMs] = [startMs, startMs];
  }

  /** Begins a collection. `end` follows when each of its points was passed to `number` or `histogram`. */
  begin(nowMs: number): void {
    this.#lastMs = this.#atMs;
    // Points must not end before they begin when the wall clock is set.
    this.#atMs = Math.max(nowMs, this.#lastMs);
    this.#collection++;
  }

  /** The time of the collection. */
  get atMs(): number {
    return this.#atMs;
  }

  /** Returns the point of a counter or a gauge. */
  number({ name, type }: MetricFamily, point: NumberPoint): TimedPoint<NumberPoint> {
    if (type === "gauge") return { point, startMs: this.#atMs, sinceMs: this.#atMs, commit: nothing };
    const series = this.#find(name, point, [point.value]);
    const timed = this.#timed(series, [point.value], point.value);
    if (this.#temporality === "cumulative") return { ...timed, point };
    return { ...timed, point: { ...point, value: point.value - series.sum } };
  }

  /** Returns the point of a histogram. */
  histogram({ name }: MetricFamily, point: HistogramPoint): TimedPoint<HistogramPoint> {
    const series = this.#find(name, point, point.counts);
    const timed = this.#timed(series, point.counts, point.sum, point.native);
    if (this.#temporality === "cumulative") return { ...timed, point };
    const counts = point.counts.map((count, at) => count - (series.counts[at] ?? 0));
    const native =
      point.native === undefined || series.native === undefined
        ? point.native
        : countsSince(point.native, series.native);
    return { ...timed, point: { ...point, counts, sum: point.sum - series.sum, native } };
  }

  /** Ends a collection: series that it did not have are forgotten. */
  end(): void {
    for (const [key, { collection }] of this.#series) {
      if (collection !== this.#collection) this.#series.delete(key);
    }
  }

  #find(name: string, { labels }: NumberPoint | HistogramPoint, counts: readonly number[]): Series {
    const key = name + JSON.stringify(labels);
    let series = this.#series.get(key);
    // What the last collection did not have was counted later, and so was a count that has fallen.
    if (series === undefined || countOf({ counts }) < countOf(series)) {
      const startMs = this.#lastMs;
      series = { startMs, exportedMs: startMs, counts: [], sum: 0, native: undefined, collection: 0 };
      this.#series.set(key, series);
    }
    series.collection = this.#collection;
    return series;
  }

  #timed(
    series: Series,
    counts: readonly number[],
    sum: number,
    native?: ExponentialCounts,
  ): Omit<TimedPoint<never>, "point"> {
    const atMs = this.#atMs;
    const startMs = this.#temporality === "cumulative" ? series.startMs : series.exportedMs;
    return {
      startMs,
      sinceMs: series.exportedMs,
      commit: () => {
        series.exportedMs = atMs;
        series.counts = counts;
        series.sum = sum;
        series.native = native;
      },
    };
  }
}

function nothing(): void {
  // A gauge has no state.
}
