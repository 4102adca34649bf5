/**
 * Metrics of all threads, added up, in the form from which each format is written: the texts of Prometheus and
 * OpenMetrics, and OTLP.
 */
import { addCounts, countsOfBounds, type ExponentialCounts } from "./exponential-buckets.ts";
import {
  type Exemplar,
  type Instrument,
  type MetricDeclaration,
  mergeMetrics,
  type MetricsSnapshot,
  type MetricTable,
  type NativeCounts,
  type SeriesBound,
  type SeriesSnapshot,
} from "./metrics.ts";

/** Values of labels, by the names of Prometheus. */
export type Labels = Readonly<Record<string, string>>;

/** What a reader wants of histograms: with buckets by bound only, or also with exponential ones. */
export type HistogramKind = "classic" | "native";

/** A metric with its points. */
export type MetricFamily = NumberFamily | HistogramFamily;

interface FamilyHead {
  /** The name in Prometheus; of a histogram or summary without the suffixes of its samples. */
  readonly name: string;
  readonly help: string;
  /** Absent: the names in OTLP are the same. */
  readonly instrument?: Instrument | undefined;
}

/** A counter or a gauge. */
export interface NumberFamily extends FamilyHead {
  readonly type: "counter" | "gauge";
  readonly points: readonly NumberPoint[];
}

/** The value of one label set. */
export interface NumberPoint {
  readonly labels: Labels;
  readonly value: number;
}

/** A histogram, or a summary with a sum and a count only. */
export interface HistogramFamily extends FamilyHead {
  readonly type: "histogram" | "summary";
  /** Upper bounds of the buckets, ascending; +Inf is implied. */
  readonly bounds: readonly number[];
  readonly points: readonly HistogramPoint[];
}

/** The values of one label set. */
export interface HistogramPoint {
  readonly labels: Labels;
  /** The number of values in each bucket, +Inf last. */
  readonly counts: readonly number[];
  readonly sum: number;
  /** The last exemplar of each bucket; absent: there are none. */
  readonly exemplars?: readonly (Exemplar | undefined)[] | undefined;
  /** The same values in exponential buckets; absent: they are not kept. */
  readonly native?: ExponentialCounts | undefined;
}

/**
 * Returns the metrics of a table in its order, summed over the threads. A metric that no thread has is without points.
 *
 * @param bound bounds the series of each metric; one for all formats. Default: unbounded.
 */
export function familiesOf(
  table: MetricTable,
  snapshots: readonly MetricsSnapshot[],
  bound?: SeriesBound,
): readonly MetricFamily[] {
  const merged = new Map(mergeMetrics(snapshots).map((family) => [family.name, family]));
  return Object.values(table).map((declaration) => {
    const exposed = exposedSeries(declaration, merged.get(declaration.name)?.series ?? []);
    return familyOf(declaration, bound === undefined ? exposed : bound.bounded(declaration, exposed));
  });
}

function familyOf(declaration: MetricDeclaration, series: readonly SeriesSnapshot[]): MetricFamily {
  const { name, help, type, buckets: bounds = [], instrument } = declaration;
  const names = exposedLabels(declaration);
  const labelsOf = ({ labels }: SeriesSnapshot): Labels =>
    Object.fromEntries(names.map((label, at) => [label, labels[at] ?? ""]));
  if (type !== "histogram") {
    const points = series.map((each) => ({ labels: labelsOf(each), value: each.data[0] ?? 0 }));
    return { name, help, type, instrument, points };
  }
  const points = series.map((each): HistogramPoint => {
    const { counts, sum } = histogramOf(each.data);
    const native = each.native && allInExponentialBuckets(bounds, counts, each.native);
    return { labels: labelsOf(each), counts, sum, exemplars: each.exemplars, native };
  });
  return { name, help, type, instrument, bounds, points };
}

/** Returns the counts and the sum. @param data as in `SeriesSnapshot`. */
export function histogramOf(data: readonly number[]): Pick<HistogramPoint, "counts" | "sum"> {
  return { counts: data.slice(0, -1), sum: data.at(-1) ?? 0 };
}

/**
 * Returns the exponential buckets of all values. Those that were counted before there were exponential buckets are in
 * the bucket of their bound, so that both kinds of buckets have the same number of values, and none ever falls.
 *
 * @param counts of all values, by bound.
 */
export function allInExponentialBuckets(
  bounds: readonly number[],
  counts: readonly number[],
  native: NativeCounts,
): ExponentialCounts {
  const { byBound, ...kept } = native;
  return addCounts(
    kept,
    countsOfBounds(
      bounds,
      counts.map((count, at) => count - (byBound[at] ?? 0)),
    ),
  );
}

/** Returns the number of values in a histogram. */
export function countOf({ counts }: Pick<HistogramPoint, "counts">): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Returns the labels of a metric that formats show. */
export function exposedLabels({ labels, summedLabels = [] }: MetricDeclaration): readonly string[] {
  return labels.filter((label) => !summedLabels.includes(label));
}

/** Adds up the series over labels that are not exposed. */
function exposedSeries(declaration: MetricDeclaration, series: readonly SeriesSnapshot[]): readonly SeriesSnapshot[] {
  const { name, labels: declared, summedLabels = [] } = declaration;
  if (summedLabels.length === 0) return series;
  const isExposed = (_: string, at: number) => !summedLabels.includes(declared[at] ?? "");
  const reduced = series.map((each) => ({ ...each, labels: each.labels.filter(isExposed) }));
  return mergeMetrics([[{ name, series: reduced }]])[0]?.series ?? [];
}
