/** Writes server-sent events (HTML standard §9.2) to a response whose head has been written. */
import type { ServerResponse } from "node:http";
import type { EventSink } from "./endpoint.ts";

/** Maximum unread bytes; a slower client is disconnected. */
const maxUnreadBytes = 16 * 1024 * 1024;

/** Calls `send` to write the events, and ends the response when it resolves. */
export async function sendEvents(
  response: ServerResponse,
  send: (sink: EventSink, signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const write = (text: string): void => {
    response.write(text);
    if (response.writableLength > maxUnreadBytes) response.destroy();
  };
  await send({ comment: (text) => write(`: ${text}\n\n`), data: (json) => write(`data: ${json}\n\n`) }, signal);
  response.end();
}
