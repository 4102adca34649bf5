/**
 * `/debug/trace`: streams the events of the next request of any worker, or of the next one that meets a condition. The
 * stream ends with the request. Concurrent clients get the same request.
 */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { parseExpression } from "../../cel/expression.ts";
import { type AdminResponse, type AdminEndpoint, type AdminRequest, type EventSink, reject } from "../endpoint.ts";

/** A watch of one client. */
export interface WatchOptions {
  /** A valid condition in CEL; absent: any request. */
  readonly expression: string | undefined;
  /** Called for each event of the watched request, in its order. */
  readonly onEvent: (event: TraceEvent) => void;
  /** Called when the request has ended, or when no request can be watched any more. */
  readonly onEnd: () => void;
}

/** Starts a watch. Resolves when every worker watches, with a function that stops it. */
export type WatchNext = (options: WatchOptions) => Promise<() => void>;

/** Interval of comments that distinguish a long wait from a broken connection. */
const keepAliveMs = 1_000;

/** The endpoint of traces. An invalid expression gets a 400. A comment each second by `clock` keeps the stream open. */
export function traceEndpoint(watch: WatchNext, clock: Clock): AdminEndpoint {
  const handler = (request: AdminRequest): AdminResponse => respondTrace(watch, clock, request);
  return {
    path: "/debug/trace",
    query: ["expression=CEL"],
    summary: "Streams the events of the next request, or the next that meets a condition, as server-sent events.",
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
  return { kind: "events", send: (sink, signal) => sendTrace(watch, clock, { expression, sink, signal }) };
}

interface Destination {
  readonly expression: string | undefined;
  readonly sink: EventSink;
  readonly signal: AbortSignal;
}

async function sendTrace(watch: WatchNext, clock: Clock, { expression, sink, signal }: Destination): Promise<void> {
  const ended = Promise.withResolvers<undefined>();
  const onEnd = (): void => ended.resolve(undefined);
  signal.addEventListener("abort", onEnd, { once: true });
  const stop = await watch({ expression, onEvent: (event) => sink.data(JSON.stringify(event)), onEnd });
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
