/** Follows one request: watches, sends it, hands every event on, and knows when that is all. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { AdminClient } from "../admin/admin-client.ts";
import { CommandError } from "../command-error.ts";
import { readTrace } from "./read-trace.ts";
import { headerOf, type TraceRequest } from "./request.ts";
import { type Answer, sendRequest } from "./send.ts";
import type { TraceSink } from "./sinks.ts";

export interface FollowOptions {
  readonly admin: AdminClient;
  readonly sink: TraceSink;
  readonly clock: Clock;
  /** The request to send, and the port of the listener; absent waits for somebody else's. */
  readonly own?: { readonly request: TraceRequest; readonly port: number };
  /** Which requests are watched for, in CEL; absent: our own, or the next of any. */
  readonly expression?: string | undefined;
  readonly signal: AbortSignal;
}

/** After the answer has ended, the trace's own end is this close. */
const graceMs = 5_000;

/** Resolves when the trace has ended. Throws a `CommandError` when there is none, or the request could not be sent. */
export async function followTrace(options: FollowOptions): Promise<void> {
  const { admin, sink, own, clock, signal } = options;
  const expression = options.expression ?? (own === undefined ? undefined : expressionFor(own.request));
  const stop = new AbortController();
  const stream = await admin.trace(expression, AbortSignal.any([signal, stop.signal]));
  let sent: Promise<Answer> | undefined;
  let isFinished = false;
  try {
    for await (const item of readTrace(stream)) {
      if (item.kind === "event") {
        sink.event(item.event, item.text);
        isFinished ||= item.event.message.type === "requestFinished";
      } else if (own !== undefined && sent === undefined) {
        sent = sendRequest(admin.reach, own.port, own.request, signal);
        endWith(sent, stop, clock);
      }
    }
  } catch (error) {
    // What went wrong with the request says more than that its trace was given up.
    if (!stop.signal.aborted || error instanceof CommandError) throw error;
  }
  const answer = await sent;
  if (answer !== undefined) sink.answer(answer);
  if (!isFinished) throw cutShort(admin.reach.name, answer);
}

/** The request id is ours, so that nobody else's request is taken for ours. */
function expressionFor(request: TraceRequest): string {
  return `request.headers["x-request-id"] == ${JSON.stringify(headerOf(request, "x-request-id"))}`;
}

/** Gives the watch up at once when the request fails, and after a while when it has been answered. */
function endWith(sent: Promise<Answer>, stop: AbortController, clock: Clock): void {
  sent.then(
    () => clock.setTimer(graceMs, () => stop.abort()),
    () => stop.abort(),
  );
}

function cutShort(name: string, answer: Answer | undefined): CommandError {
  if (answer === undefined) {
    return new CommandError({
      message: `follow a request at ${name}: the trace ended before the request did`,
      advice: ["the proxy may be shutting down: see its log"],
    });
  }
  return new CommandError({
    message: `follow the request at ${name}: it was answered with ${answer.status}, but the proxy did not see it`,
    advice: ["check that --port is a port of this proxy, and that nothing in between removes x-request-id"],
  });
}
