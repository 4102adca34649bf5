/** Server-sent events (HTML standard §9.2) on an answer whose head has been written. */
import type { ServerResponse } from "node:http";
import type { EventSink } from "./endpoint.ts";

/** Bytes that a reader may be behind; whoever reads no events at all is let go. */
const maxBehindBytes = 16 * 1024 * 1024;

/** Has `send` write events until it is done, then ends the answer. */
export async function sendEvents(
  response: ServerResponse,
  send: (sink: EventSink, signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const write = (text: string): void => {
    response.write(text);
    if (response.writableLength > maxBehindBytes) response.destroy();
  };
  await send({ comment: (text) => write(`: ${text}\n\n`), data: (json) => write(`data: ${json}\n\n`) }, signal);
  response.end();
}
