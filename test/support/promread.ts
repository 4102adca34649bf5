/**
 * What Prometheus reads of a page of metrics: by its own parser, the checks of its storage, and the quantiles of its
 * queries.
 */
import { spawnSync } from "node:child_process";

export interface ReadPage {
  /**
   * The values of all series with one value, such as buckets by bound, by their names with labels in alphabetical
   * order.
   */
  readonly series: Readonly<Record<string, number>>;
  readonly histograms: readonly ReadHistogram[];
}

/** A native histogram. */
export interface ReadHistogram {
  /** With the name as `__name__`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly schema: number;
  readonly count: number;
  readonly sum: number;
  readonly zeros: number;
  /** Those with values, without zeros. Values are greater than `lower`, and up to `upper`. */
  readonly buckets: readonly { readonly lower: number; readonly upper: number; readonly count: number }[];
  /** By `histogram_quantile`; empty without values. */
  readonly quantiles: Readonly<Record<"0.5" | "0.9" | "0.99", number>>;
  /** Their labels. */
  readonly exemplars: readonly Readonly<Record<string, string>>[];
}

/** The header with which a server asks whose native histograms are switched on. */
export const acceptOfPrometheus =
  "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," +
  "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4," +
  "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";

/** Reads a page by `program`; throws an error if Prometheus would reject it. */
export function readPage(program: string, contentType: string, page: Uint8Array): ReadPage {
  const { stdout, stderr, status } = spawnSync(program, [contentType], { input: page, maxBuffer: 64 * 1_024 * 1_024 });
  if (status !== 0) throw new Error(`the page is rejected: ${stderr.toString()}`);
  return JSON.parse(stdout.toString()) as ReadPage;
}

/** Scrapes a page as Prometheus does. */
export async function scrapeNative(program: string, url: string): Promise<ReadPage> {
  const response = await fetch(url, { headers: { accept: acceptOfPrometheus } });
  if (response.status !== 200) throw new Error(`${url} responded with ${response.status}`);
  const page = Buffer.from(await response.arrayBuffer());
  return readPage(program, response.headers.get("content-type") ?? "", page);
}

/** The native histograms of a name. */
export function histogramsOf({ histograms }: ReadPage, name: string): readonly ReadHistogram[] {
  return histograms.filter(({ labels }) => labels["__name__"] === name);
}
