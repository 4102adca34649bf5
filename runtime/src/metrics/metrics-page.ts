/** The page of metrics for scrapers, in the format that each prefers. */
import type { Clock } from "../timing/clock.ts";
import { throttle } from "../timing/throttle.ts";
import { type ExpositionFormat, expositionContentTypes, formatOf, renderFamilies } from "./exposition.ts";
import type { MetricFamily } from "./metric-families.ts";

/** A rendered page. */
export interface MetricsPage {
  readonly contentType: string;
  readonly body: string;
}

/**
 * Returns a function that renders the page for the field `accept` of a request. Concurrent requests of a format share a
 * rendering, and its renderings use at most a quarter of the thread's time.
 *
 * @param collect collects the metrics of all threads.
 */
export function metricsPage(
  collect: () => Promise<readonly MetricFamily[]>,
  clock: Clock,
): (accept: string | undefined) => Promise<MetricsPage> {
  const renderingOf = (format: ExpositionFormat): (() => Promise<MetricsPage>) =>
    throttle(async () => {
      return { contentType: expositionContentTypes[format], body: await renderFamilies(await collect(), format) };
    }, clock);
  const renderings = { text: renderingOf("text"), openmetrics: renderingOf("openmetrics") };
  return (accept) => renderings[formatOf(accept)]();
}
