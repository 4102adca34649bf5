/** Opens the traces of one thread. Without settings nothing is loaded. */
import type { ExportObserver } from "../otlp/export-observer.ts";
import type { OpenSender } from "../otlp/open-sender.ts";
import { Propagation } from "./propagation.ts";
import { type Sample, samplerOf } from "./sampling.ts";
import type { SpanSink } from "./span.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/** The traces of one thread. */
export interface Tracing {
  readonly propagation: Propagation;
  readonly sample: Sample;
  readonly sink: SpanSink;
  /** The values of OTEL_SEMCONV_STABILITY_OPT_IN. */
  readonly semconvOptIn: readonly string[];
}

/** A program that exports spans. */
export interface TracedProgram {
  readonly name: string;
  readonly version: string;
  /** Whether the sampling decision of callers is ignored. */
  readonly ignoresCallers?: boolean;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly observer: ExportObserver;
  /** Opens the sender of the spans. */
  readonly openSender: OpenSender;
}

/** Loads the exporter, and opens it. */
export async function openTracing(settings: TracingSettings, program: TracedProgram): Promise<Tracing> {
  const { openSpanExporter } = await import("./span-exporter.ts");
  const { ignoresCallers = false, random, observer, name, version, openSender } = program;
  const { sampler, propagators, semconvOptIn } = settings;
  return {
    propagation: new Propagation(propagators),
    sample: samplerOf(sampler, ignoresCallers, random),
    sink: await openSpanExporter(settings, { name, version }, openSender, observer),
    semconvOptIn,
  };
}
