/** The page of metrics for scrapers, in the format that each prefers. */
import type { Clock } from "../timing/clock.ts";
import { throttle } from "../timing/throttle.ts";
import { type ExpositionFormat, expositionContentTypes, formatOf, renderFamilies } from "./exposition.ts";
import type { HistogramKind, MetricFamily } from "./metric-families.ts";
import { renderProtobuf } from "./protobuf-exposition.ts";

/** A rendered page. */
export interface MetricsPage {
  readonly contentType: string;
  readonly body: string | Buffer;
}

/**
 * Returns a function that renders the page for the field `accept` of a request. Concurrent requests of a format share a
 * rendering, and its renderings use at most a quarter of the thread's time.
 *
 * @param collect collects the metrics of all threads. Histograms are native in the protobuf format only.
 */
export function metricsPage(
  collect: (histograms: HistogramKind) => Promise<readonly MetricFamily[]>,
  clock: Clock,
): (accept: string | undefined) => Promise<MetricsPage> {
  const renderingOf = (
    format: ExpositionFormat,
    render: () => Promise<string | Buffer>,
  ): (() => Promise<MetricsPage>) =>
    throttle(async () => ({ contentType: expositionContentTypes[format], body: await render() }), clock);
  const renderings = {
    text: renderingOf("text", async () => renderFamilies(await collect("classic"), "text")),
    openmetrics: renderingOf("openmetrics", async () => renderFamilies(await collect("classic"), "openmetrics")),
    protobuf: renderingOf("protobuf", async () => renderProtobuf(await collect("native"))),
  };
  return (accept) => renderings[formatOf(accept)]();
}
