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

/**
 * Resolves when the request has ended. Throws a `CommandError` if its trace ends before, or a proxy does not respond.
 */
export async function followTraceId({
  admins,
  traceId,
  expression,
  sink,
  signal,
}: FollowTraceIdOptions): Promise<void> {
  const watches = admins.map((admin) => ({ admin, stop: new AbortController() }));
  let source: AdminClient | undefined;
  /** The first proxy with an event has the request; the others stop. */
  const isSource = (admin: AdminClient): boolean => {
    if (source === undefined) {
      source = admin;
      for (const watch of watches) if (watch.admin !== admin) watch.stop.abort();
    }
    return source === admin;
  };
  /** Resolves with whether the request has ended at this proxy. */
  const follow = async (admin: AdminClient, stop: AbortSignal): Promise<boolean> => {
    let isFinished = false;
    try {
      const stream = await admin.trace({ expression, traceId }, AbortSignal.any([signal, stop]));
      for await (const item of readTrace(stream)) {
        if (item.kind !== "event") continue;
        if (!isSource(admin)) return false;
        sink.event(item.event, item.text);
        isFinished ||= item.event.message.type === "requestFinished";
      }
    } catch (error) {
      if (!stop.aborted) throw error;
    }
    return isFinished;
  };
  try {
    const finished = await Promise.all(watches.map(({ admin, stop }) => follow(admin, stop.signal)));
    if (finished.includes(true)) return;
  } finally {
    for (const { stop } of watches) stop.abort();
  }
  throw new CommandError({
    message: `trace a request of ${traceId}: the trace ended before the request did`,
    advice: ["the proxy may be shutting down: see its log"],
  });
}
