/** Exports spans by OTLP. Only processes that export traces load this module (`open-tracing.ts`). */
import { ExportQueue } from "../otlp/export-queue.ts";
import { messagesOfScope, type Scope } from "../otlp/otlp-fields.ts";
import type { OpenSender } from "../otlp/open-sender.ts";
import type { ExportObserver } from "../otlp/export-observer.ts";
import { systemClock } from "../timing/clock.ts";
import { writeSpan } from "./otlp-spans.ts";
import type { SpanSink } from "./span.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/** Opens the exporter of one thread. @param scope name and version of the program. */
export async function openSpanExporter(
  settings: TracingSettings,
  scope: Scope,
  openSender: OpenSender,
  observer: ExportObserver,
): Promise<SpanSink> {
  const { batch, resource, protocol } = settings;
  const transport = { signal: "spans", protocol, timeoutMs: batch.exportTimeoutMs } as const;
  const sender = await openSender(transport, (message) => observer.problem(message));
  const items = { write: writeSpan, messageOf: messagesOfScope({ resource, scope }) };
  return new ExportQueue({ batch, items, sender, clock: systemClock, observer });
}
