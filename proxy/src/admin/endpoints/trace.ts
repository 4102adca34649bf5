/**
 * `/debug/trace`: streams the events of the next request of any worker, or of the next one that meets a condition. The
 * stream ends with the request. Concurrent clients get the same request.
 */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { parseExpression } from "../../cel/expression.ts";
import { readTraceId } from "../parameters.ts";
import { type AdminResponse, type AdminEndpoint, type AdminRequest, type EventSink, reject } from "../endpoint.ts";

/** A watch of one client. */
export interface WatchOptions {
  /** A valid condition in CEL; absent: any request. */
  readonly expression: string | undefined;
  /** The trace of the request; absent: any, or none. */
  readonly traceId?: string | undefined;
  /** Called for each event of the watched request, in its order. */
  readonly onEvent: (event: TraceEvent) => void;
  /** Called when the request has ended, or when no request can be watched any more. */
  readonly onEnd: () => void;
}

/** Starts a watch. Resolves when every worker watches, with a function that stops it. */
export type WatchNext = (options: WatchOptions) => Promise<() => void>;

/** Interval of comments that distinguish a long wait from a broken connection. */
const keepAliveMs = 1_000;

/**
 * The endpoint of traces. An invalid expression or trace id gets a 400. A comment each second by `clock` keeps the
 * stream open.
 */
export function traceEndpoint(watch: WatchNext, clock: Clock): AdminEndpoint {
  const handler = (request: AdminRequest): AdminResponse => respondTrace(watch, clock, request);
  return {
    path: "/debug/trace",
    query: ["expression=CEL", "trace_id=TRACE_ID"],
    summary:
      "Streams the events of the next request, or the next that meets a condition or belongs to a trace, as server-sent events.",
    methods: { GET: handler, POST: handler },
  };
}

function respondTrace(watch: WatchNext, clock: Clock, { query }: AdminRequest): AdminResponse {
  const expression = query.get("expression") ?? undefined;
  if (expression !== undefined) {
    const parsed = parseExpression(expression, { phase: "head", result: "condition" });
    if (!parsed.ok) {
      const error = parsed.problems.map(({ message }) => message).join("; ");
      return reject(
        400,
        error,
        "a condition in CEL, such as request.path.startsWith('/v1') or route == 'default/chat'",
      );
    }
  }
  const traceId = readTraceId(query);
  if (typeof traceId === "object") return traceId;
  return { kind: "events", send: (sink, signal) => sendTrace(watch, clock, { expression, traceId, sink, signal }) };
}

interface Destination extends Pick<WatchOptions, "expression" | "traceId"> {
  readonly sink: EventSink;
  readonly signal: AbortSignal;
}

async function sendTrace(
  watch: WatchNext,
  clock: Clock,
  { expression, traceId, sink, signal }: Destination,
): Promise<void> {
  const ended = Promise.withResolvers<undefined>();
  const onEnd = (): void => ended.resolve(undefined);
  signal.addEventListener("abort", onEnd, { once: true });
  const stop = await watch({ expression, traceId, onEvent: (event) => sink.data(JSON.stringify(event)), onEnd });
  sink.comment("ready");
  let hasEnded = false;
  const keepAlive = (): void => {
    if (hasEnded) return;
    sink.comment("keepalive");
    clock.setTimer(keepAliveMs, keepAlive);
  };
  clock.setTimer(keepAliveMs, keepAlive);
  await ended.promise;
  hasEnded = true;
  stop();
}
