/** Opens the export of the spans of one worker. */
import { systemClock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { OpenSender } from "@gatewayproxy/runtime/open-sender";
import type { RequestTracing } from "../telemetry/spans/request-tracing.ts";
import type { WorkerTracing } from "./messages.ts";

/** A worker, and the receivers of what happens to its spans. */
export interface RequestTracingOptions {
  /** Its number, from 1. */
  readonly worker: number;
  /** Of `proxy::tracing`. */
  readonly log: Logger;
  /** Opens the sender of the spans. */
  readonly openSender: OpenSender;
  /** Called with the number of spans that were exported, or were not. */
  readonly onSpansEnded: (outcome: "exported" | "failed" | "dropped", count: number) => void;
  /** Called with a problem of an exporter. */
  readonly onProblem: (message: string) => void;
}

/** Loads the exporter, which no process without traces needs, and opens it. */
export async function openRequestTracing(
  { settings, always, ignoresClients }: WorkerTracing,
  { worker, log, openSender, onSpansEnded, onProblem }: RequestTracingOptions,
): Promise<RequestTracing> {
  const { openTracing } = await import("@gatewayproxy/runtime/open-tracing");
  const { RequestTracing } = await import("../telemetry/spans/request-tracing.ts");
  const tracing = await openTracing(settings, {
    name: "gateway-proxy",
    version: settings.resource["service.version"] ?? "",
    ignoresCallers: ignoresClients,
    random: Math.random,
    openSender,
    observer: {
      ended(outcome, count) {
        onSpansEnded(outcome, count);
        log.debug({ outcome, spans: count }, "spans ended");
      },
      problem: onProblem,
    },
  });
  return new RequestTracing(systemClock, tracing, always, worker);
}
