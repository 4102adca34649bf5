/** Traces the next request of a trace, at whichever of several proxies it arrives. */
import type { AdminClient } from "../admin/admin-client.ts";
import { CommandError } from "../command-error.ts";
import { readTrace } from "./read-trace.ts";
import type { TraceSink } from "./sinks.ts";

/** Options of `followTraceId`. */
export interface FollowTraceIdOptions {
  /** The admin servers of all proxies that the request may arrive at. */
  readonly admins: readonly AdminClient[];
  readonly traceId: string;
  /** A further CEL condition; absent: none. */
  readonly expression: string | undefined;
  /** Receives the events in their order. */
  readonly sink: TraceSink;
  /** Ends the trace. */
  readonly signal: AbortSignal;
}

/** Resolves when the request has ended. Throws a `CommandError` if its trace ends before, or a proxy does not respond. */
export async function followTraceId({
  admins,
  traceId,
  expression,
  sink,
  signal,
}: FollowTraceIdOptions): Promise<void> {
  const stops = admins.map(() => new AbortController());
  let source: AdminClient | undefined;
  let isFinished = false;
  /** The first proxy with an event has the request; the others stop. */
  const isSource = (admin: AdminClient): boolean => {
    if (source === undefined) {
      source = admin;
      for (const [at, stop] of stops.entries()) if (admins[at] !== admin) stop.abort();
    }
    return source === admin;
  };
  const follow = async (admin: AdminClient, stop: AbortSignal): Promise<void> => {
    try {
      const stream = await admin.trace({ expression, traceId }, AbortSignal.any([signal, stop]));
      for await (const item of readTrace(stream)) {
        if (item.kind !== "event") continue;
        if (!isSource(admin)) return;
        sink.event(item.event, item.text);
        isFinished ||= item.event.message.type === "requestFinished";
      }
    } catch (error) {
      if (!stop.aborted) throw error;
    }
  };
  try {
    await Promise.all(admins.map((admin, at) => follow(admin, (stops[at] ?? new AbortController()).signal)));
  } finally {
    for (const stop of stops) stop.abort();
  }
  if (isFinished) return;
  throw new CommandError({
    message: `trace a request of ${traceId}: the trace ended before the request did`,
    advice: ["the proxy may be shutting down: see its log"],
  });
}
