/**
 * Metrics of a service with several threads. A table declares them. Each thread counts in its own cells, at the cost of
 * one addition. The main thread collects the counts of all threads, adds them up and renders them for Prometheus.
 */
import { addCounts, ExponentialBuckets, type ExponentialCounts } from "./exponential-buckets.ts";

/** The declaration of a metric. Names follow the Prometheus conventions: base unit as suffix, `_total` for counters. */
export interface MetricDeclaration {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** One sentence with a full stop. */
  readonly help: string;
  readonly labels: readonly string[];
  /** Labels that the exposition does not have: their series are added up. Default: none. */
  readonly summedLabels?: readonly string[];
  /** Upper bounds of a histogram's buckets, ascending; the last one, +Inf, is implied. */
  readonly buckets?: readonly number[];
  /** Its names in OTLP. Default: those above. */
  readonly instrument?: Instrument;
}

/** What OpenTelemetry calls a metric that its semantic conventions define. */
export interface Instrument {
  readonly name: string;
  /** In UCUM: `s`, `By`, `{token}`. */
  readonly unit: string;
  /** The names of attributes, by labels. */
  readonly attributes: Readonly<Record<string, string>>;
}

/** Declarations by the name that the code uses. */
export type MetricTable = Readonly<Record<string, MetricDeclaration>>;

/** A counter or gauge for one set of label values. */
export class Cell {
  value = 0;

  data(): readonly number[] {
    return [this.value];
  }

  exemplars(): undefined {
    return undefined;
  }
}

/** The span whose duration, or another measure, was observed. It is exported. */
export interface ObservedSpan {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Wall time of the observation, ms since the epoch. */
  readonly atMs: number;
}

/** An observed value with its span: an example for the values of a bucket. */
export interface Exemplar extends ObservedSpan {
  readonly value: number;
}

/** Values in exponential buckets, and the same values in the buckets by bound. */
export interface NativeCounts extends ExponentialCounts {
  /**
   * The number of values in each bucket, +Inf last. A histogram may have counted others before it had exponential
   * buckets.
   */
  readonly byBound: readonly number[];
}

/** The exponential buckets of one or several cells. */
export class NativeBuckets {
  readonly #buckets = new ExponentialBuckets();
  readonly #byBound: number[];

  /** @param bounds of the buckets by bound. */
  constructor(bounds: readonly number[]) {
    this.#byBound = new Array<number>(bounds.length + 1).fill(0);
  }

  /** @param bucket of the buckets by bound. */
  observe(value: number, bucket: number): void {
    this.#buckets.add(value);
    this.#byBound[bucket] = (this.#byBound[bucket] ?? 0) + 1;
  }

  /** Returns a copy of the counts. */
  counts(): NativeCounts {
    return { ...this.#buckets.counts(), byBound: [...this.#byBound] };
  }
}

/** Adds up the counts of threads; undefined for those without exponential buckets. */
export function addNative(one: NativeCounts | undefined, other: NativeCounts | undefined): NativeCounts | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return { ...addCounts(one, other), byBound: one.byBound.map((count, at) => count + (other.byBound[at] ?? 0)) };
}

/** A histogram for one set of label values. */
export class HistogramCell {
  /** Receives the values, too. Undefined until a reader wants exponential buckets. */
  native: NativeBuckets | undefined;
  readonly #bounds: readonly number[];
  /** The number of values in each bucket, +Inf last, and then the sum of the values. */
  readonly #data: number[];
  /** The last value of each bucket that has a span; undefined before the first one. */
  #exemplars: (Exemplar | undefined)[] | undefined;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#data = new Array<number>(bounds.length + 2).fill(0);
  }

  /** @param span of the value, if it is exported. */
  observe(value: number, span?: ObservedSpan): void {
    let bucket = 0;
    while (value > (this.#bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket++;
    this.#data[bucket] = (this.#data[bucket] ?? 0) + 1;
    const sum = this.#data.length - 1;
    this.#data[sum] = (this.#data[sum] ?? 0) + value;
    this.native?.observe(value, bucket);
    if (span !== undefined) this.#keep(bucket, { ...span, value });
  }

  data(): readonly number[] {
    return this.#data;
  }

  exemplars(): readonly (Exemplar | undefined)[] | undefined {
    return this.#exemplars;
  }

  #keep(bucket: number, exemplar: Exemplar): void {
    this.#exemplars ??= new Array<undefined>(this.#bounds.length + 1).fill(undefined);
    this.#exemplars[bucket] = exemplar;
  }
}

/** The value of a label. */
export type LabelValue = string | number;

/** One value for each declared label, in the order of declaration. */
type LabelValues<L extends readonly string[]> = { readonly [I in keyof L]: LabelValue };

/** The maximum number of label sets per metric and thread. Further ones share a cell whose labels are all `other`. */
const maxCells = 10_000;
const other = "other";

/** A tree with one level per label and a cell at each leaf. */
type LabelTree<C> = Map<LabelValue, LabelTree<C> | C>;

/** A metric with its cells. */
export class Family<C extends Cell | HistogramCell, L extends readonly string[]> {
  readonly declaration: MetricDeclaration;
  readonly #create: () => C;
  readonly #tree: LabelTree<C> = new Map();
  #series: { readonly labels: readonly string[]; readonly cell: C }[] = [];
  /**
   * Exponential buckets by exposed labels: cells that are exposed as one series share them. Undefined until they are
   * kept.
   */
  #native: Map<string, NativeBuckets> | undefined;

  constructor(declaration: MetricDeclaration, create: () => C) {
    this.declaration = declaration;
    this.#create = create;
    // A metric without labels starts at 0, so that alerts on it work before the first event.
    if (declaration.labels.length === 0) this.#add([]);
  }

  /** Returns the cell of these label values. Keep it where the labels do not change from one event to the next. */
  cell(...labels: LabelValues<L>): C {
    let node: LabelTree<C> | C | undefined = labels.length === 0 ? this.#series[0]?.cell : this.#tree;
    for (const label of labels) {
      if (!(node instanceof Map)) break;
      node = node.get(label);
    }
    return node === undefined || node instanceof Map ? this.#add(labels) : node;
  }

  /** Removes every series with this value of the label. Counts in a removed cell have no effect. */
  removeSeries(label: L[number], value: string): void {
    const at = this.declaration.labels.indexOf(label);
    const isRemoved = ({ labels }: { readonly labels: readonly string[] }): boolean => labels[at] === value;
    this.#series = this.#series.filter((series) => !isRemoved(series));
    prune(this.#tree, at, value);
    if (this.#native === undefined) return;
    const kept = new Set(this.#series.map(({ cell }) => nativeOf(cell)));
    for (const [key, buckets] of this.#native) if (!kept.has(buckets)) this.#native.delete(key);
  }

  /** Removes every series of a metric with labels. */
  clear(): void {
    this.#series = [];
    this.#tree.clear();
    this.#native?.clear();
  }

  /** Lets histograms have exponential buckets from now on. */
  keepNative(): void {
    if (this.#native !== undefined || this.declaration.type !== "histogram") return;
    this.#native = new Map();
    for (const { labels, cell } of this.#series) this.#makeNative(this.#native, labels, cell);
  }

  snapshot(): FamilySnapshot {
    const taken = new Set<NativeBuckets>();
    const series = this.#series.map(({ labels, cell }): SeriesSnapshot => {
      const exemplars = cell.exemplars();
      const native = nativeOf(cell);
      // Of cells that share buckets, the first has their counts.
      const isTaken = native === undefined || taken.has(native);
      if (native !== undefined) taken.add(native);
      return {
        labels,
        data: [...cell.data()],
        ...(exemplars !== undefined && { exemplars: [...exemplars] }),
        ...(!isTaken && { native: native.counts() }),
      };
    });
    return { name: this.declaration.name, series };
  }

  #makeNative(native: Map<string, NativeBuckets>, labels: readonly string[], cell: C): void {
    if (!(cell instanceof HistogramCell)) return;
    const { labels: names, summedLabels = [], buckets = [] } = this.declaration;
    const key = JSON.stringify(labels.filter((_, at) => !summedLabels.includes(names[at] ?? "")));
    cell.native = native.get(key) ?? new NativeBuckets(buckets);
    native.set(key, cell.native);
  }

  #add(labels: readonly LabelValue[]): C {
    const isFull = this.#series.length >= maxCells;
    const stored = isFull ? labels.map(() => other) : labels;
    let node = this.#tree;
    for (const label of stored.slice(0, -1)) {
      let child = node.get(label);
      if (!(child instanceof Map)) {
        child = new Map();
        node.set(label, child);
      }
      node = child;
    }
    const last = stored.at(-1);
    const existing = last === undefined ? undefined : node.get(last);
    if (existing !== undefined && !(existing instanceof Map)) return existing;
    const cell = this.#create();
    if (last !== undefined) node.set(last, cell);
    const series = { labels: stored.map(String), cell };
    if (this.#native !== undefined) this.#makeNative(this.#native, series.labels, cell);
    this.#series.push(series);
    return cell;
  }
}

function nativeOf(cell: Cell | HistogramCell): NativeBuckets | undefined {
  return cell instanceof HistogramCell ? cell.native : undefined;
}

/** Removes the branches of a label's value. @param depth of the label's nodes below `tree`. */
function prune(tree: Map<LabelValue, unknown>, depth: number, value: string): void {
  for (const [label, child] of tree) {
    if (depth === 0) {
      if (String(label) === value) tree.delete(label);
    } else if (child instanceof Map) {
      // Every node that is not a cell is a map.
      prune(child as Map<LabelValue, unknown>, depth - 1, value);
    }
  }
}

/** The metrics of a table, by the names that the code uses. */
export type Families<T extends MetricTable> = {
  readonly [K in keyof T]: Family<T[K]["type"] extends "histogram" ? HistogramCell : Cell, T[K]["labels"]>;
};

/** Creates the cells of one thread for every metric of the table. */
export function createFamilies<const T extends MetricTable>(table: T): Families<T> {
  const families = Object.entries(table).map(([key, declaration]) => {
    const create = () => (declaration.type === "histogram" ? new HistogramCell(declaration.buckets ?? []) : new Cell());
    return [key, new Family(declaration, create)];
  });
  // Each family has the type of its own declaration, which `Object.fromEntries` cannot express.
  return Object.fromEntries(families) as Families<T>;
}

/** The counts of one metric in one thread, as plain data that can be posted. */
export interface FamilySnapshot {
  readonly name: string;
  readonly series: readonly SeriesSnapshot[];
}

/** The counts of one set of label values. */
export interface SeriesSnapshot {
  /** Label values in the order of declaration. */
  readonly labels: readonly string[];
  /** The value; for a histogram the count of each bucket, +Inf last, and then the sum. */
  readonly data: readonly number[];
  /** For a histogram with spans: the last exemplar of each bucket. */
  readonly exemplars?: readonly (Exemplar | undefined)[];
  /** For a histogram with exponential buckets: their counts. Series that are exposed as one have them once. */
  readonly native?: NativeCounts;
}

/** The counts of one thread. */
export type MetricsSnapshot = readonly FamilySnapshot[];

/** Lets all histograms of a thread have exponential buckets from now on. */
export function keepNative(families: Families<MetricTable>): void {
  for (const family of Object.values(families)) family.keepNative();
}

/** Copies the counts of all metrics of a thread. */
export function takeSnapshot(families: Families<MetricTable>): MetricsSnapshot {
  return Object.values(families).map((family) => family.snapshot());
}

/** Removes gauges. The gauge of a thread that has ended has no meaning. */
export function withoutGauges(snapshot: MetricsSnapshot, table: MetricTable): MetricsSnapshot {
  const isGauge = new Map(Object.values(table).map(({ name, type }) => [name, type === "gauge"]));
  return snapshot.filter(({ name }) => isGauge.get(name) !== true);
}

/** Adds up the counts of several threads, series by series. */
export function mergeMetrics(snapshots: readonly MetricsSnapshot[]): MetricsSnapshot {
  const families = new Map<string, Map<string, MergedSeries>>();
  for (const { name, series } of snapshots.flat()) {
    const merged = families.get(name) ?? new Map<string, MergedSeries>();
    families.set(name, merged);
    for (const each of series) {
      // Different label sets have different keys, whatever their values: JSON quotes them.
      const key = JSON.stringify(each.labels);
      const same = merged.get(key);
      if (same === undefined) merged.set(key, { ...each, data: [...each.data] });
      else addTo(same, each);
    }
  }
  return Array.from(families, ([name, series]) => ({ name, series: [...series.values()] }));
}

interface MergedSeries extends SeriesSnapshot {
  readonly data: number[];
  exemplars?: readonly (Exemplar | undefined)[];
  native?: NativeCounts;
}

function addTo(merged: MergedSeries, { data, exemplars, native }: SeriesSnapshot): void {
  for (const [at, value] of data.entries()) merged.data[at] = (merged.data[at] ?? 0) + value;
  const later = laterExemplars([merged.exemplars, exemplars]);
  if (later !== undefined) merged.exemplars = later;
  const sum = addNative(merged.native, native);
  if (sum !== undefined) merged.native = sum;
}

/** The exemplars of each bucket of one histogram. */
type BucketExemplars = readonly (Exemplar | undefined)[];

/** Returns the last exemplar of each bucket. @param histograms with the same buckets; undefined: without exemplars. */
export function laterExemplars(histograms: readonly (BucketExemplars | undefined)[]): BucketExemplars | undefined {
  return histograms.reduce(
    (others, exemplars) =>
      others === undefined || exemplars === undefined
        ? (others ?? exemplars)
        : exemplars.map((exemplar, bucket) => laterOf(exemplar, others[bucket])),
    undefined,
  );
}

function laterOf(one: Exemplar | undefined, other: Exemplar | undefined): Exemplar | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.atMs >= other.atMs ? one : other;
}

/**
 * Bounds the series of each metric, so that a scrape stays short whatever the number of label sets. The first label
 * sets get series of their own, and keep them while they exist. The others are added up in a series whose labels are
 * all `other`, so no counter falls.
 */
export class SeriesBound {
  readonly #maxSeries: number;
  readonly #kept = new Map<string, Set<string>>();

  /** @param maxSeries of each counter and gauge. A histogram gets a 25th of them, because each has many lines. */
  constructor(maxSeries: number) {
    this.#maxSeries = maxSeries;
  }

  /** Returns the bounded series of a metric. */
  bounded({ name, type }: MetricDeclaration, series: readonly SeriesSnapshot[]): readonly SeriesSnapshot[] {
    const max = type === "histogram" ? Math.ceil(this.#maxSeries / 25) : this.#maxSeries;
    const keyed = series.map((each) => ({ each, key: JSON.stringify(each.labels) }));
    const before = this.#kept.get(name) ?? new Set<string>();
    const kept = new Set(keyed.filter(({ key }) => before.has(key)).map(({ key }) => key));
    for (const { key } of keyed) if (kept.size < max) kept.add(key);
    this.#kept.set(name, kept);
    if (kept.size === series.length) return series;
    const labelled = keyed.map(({ each, key }) =>
      kept.has(key) ? each : { ...each, labels: each.labels.map(() => other) },
    );
    return mergeMetrics([[{ name, series: labelled }]])[0]?.series ?? [];
  }
}
