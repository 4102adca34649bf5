/** Traces one request: opens the event stream, sends the request, passes events on, and ends after the last one. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { AdminClient } from "../admin/admin-client.ts";
import { CommandError } from "../command-error.ts";
import { readTrace } from "./read-trace.ts";
import { headerOf, type TraceRequest } from "./request.ts";
import { type ClientResponse, sendRequest } from "./send.ts";
import type { TraceSink } from "./sinks.ts";

/** Options of `followTrace`. */
export interface FollowOptions {
  /** The admin server that streams the trace. */
  readonly admin: AdminClient;
  /** Receives the events in their order. */
  readonly sink: TraceSink;
  /** Times the 5 s that the trace may continue after the response. */
  readonly clock: Clock;
  /** The request to send, and the port of the listener; absent: waits for a request of another client. */
  readonly ownRequest?: { readonly request: TraceRequest; readonly port: number };
  /** CEL expression of the requests to trace; absent: the own request, or the next one of any client. */
  readonly expression?: string | undefined;
  /** Ends the trace. */
  readonly signal: AbortSignal;
}

/** The time that the trace may continue after the end of the response, in ms. */
const graceMs = 5_000;

/** Resolves when the trace has ended. Throws a `CommandError` if there is none, or the request could not be sent. */
export async function followTrace(options: FollowOptions): Promise<void> {
  const { admin, sink, ownRequest, clock, signal } = options;
  const expression = options.expression ?? (ownRequest === undefined ? undefined : expressionFor(ownRequest.request));
  const stop = new AbortController();
  const stream = await admin.trace({ expression }, AbortSignal.any([signal, stop.signal]));
  let sent: Promise<ClientResponse> | undefined;
  let isFinished = false;
  try {
    for await (const item of readTrace(stream)) {
      if (item.kind === "event") {
        sink.event(item.event, item.text);
        isFinished ||= item.event.message.type === "requestFinished";
      } else if (ownRequest !== undefined && sent === undefined) {
        sent = sendRequest(admin.connector, ownRequest.port, ownRequest.request, signal);
        stopAfter(sent, stop, clock);
      }
    }
  } catch (error) {
    // The error of the request is more specific than the abort of its trace.
    if (!stop.signal.aborted || error instanceof CommandError) throw error;
  }
  const response = await sent;
  if (response !== undefined) sink.response(response);
  if (!isFinished) throw incompleteTraceError(admin.connector.name, response);
}

/** Returns an expression for the request of this command, by its random request id. */
function expressionFor(request: TraceRequest): string {
  return `request.headers["x-request-id"] == ${JSON.stringify(headerOf(request, "x-request-id"))}`;
}

/** Aborts the trace at once if the request fails, and some time after its response. */
function stopAfter(sent: Promise<ClientResponse>, stop: AbortController, clock: Clock): void {
  sent.then(
    () => clock.setTimer(graceMs, () => stop.abort()),
    () => stop.abort(),
  );
}

function incompleteTraceError(name: string, response: ClientResponse | undefined): CommandError {
  if (response === undefined) {
    return new CommandError({
      message: `trace a request at ${name}: the trace ended before the request did`,
      advice: ["the proxy may be shutting down: see its log"],
    });
  }
  return new CommandError({
    message: `trace the request at ${name}: it got a ${response.status} response, but the proxy did not see it`,
    advice: ["check that --port is a port of this proxy, and that nothing in between removes x-request-id"],
  });
}
