/** Exports spans by OTLP. Only processes that export traces load this module (`open-tracing.ts`). */
import { reportDiagnostics } from "../otlp/diagnostics.ts";
import { ExportQueue } from "../otlp/export-queue.ts";
import { messagesOfScope, type Scope } from "../otlp/otlp-fields.ts";
import { openOtlpSender } from "../otlp/otlp-sender.ts";
import type { ExportObserver } from "../otlp/export-observer.ts";
import { systemClock } from "../timing/clock.ts";
import { writeSpan } from "./otlp-spans.ts";
import type { SpanSink } from "./span.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/** Opens the exporter of one thread. @param scope name and version of the program. */
export async function openSpanExporter(
  settings: TracingSettings,
  scope: Scope,
  observer: ExportObserver,
): Promise<SpanSink> {
  reportDiagnostics((message) => observer.problem(message));
  const { batch, resource, protocol } = settings;
  const onRejected = (message: string): void => observer.problem(message);
  const sender = await openOtlpSender({ signal: "spans", protocol, timeoutMs: batch.exportTimeoutMs, onRejected });
  const items = { write: writeSpan, messageOf: messagesOfScope({ resource, scope }) };
  return new ExportQueue({ batch, items, sender, clock: systemClock, observer });
}
