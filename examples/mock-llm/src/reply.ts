/** An answer before it is sent, and the sending of it: whole or by event, compressed, slowly, or not to the end. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type Encoder, openEncoder } from "./encoder.ts";
import type { Encoding, Wishes } from "./wishes.ts";

export type Reply =
  | { readonly kind: "json"; readonly status: number; readonly body: object }
  | { readonly kind: "events"; readonly events: readonly string[] };

/** One event of a stream, without a name, as in OpenAI's chat completions. */
export function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** The data of an event that is named after its type, as everywhere else. */
export interface TypedData {
  readonly type: string;
  readonly [member: string]: unknown;
}

export function typedEvent(data: TypedData): string {
  return `event: ${data.type}\n${event(data)}`;
}

/** Pause between the events of a stream when the request wishes for none: about as fast as one reads. */
const defaultDelayMs = 12;

/** Sends the answer; resolves when it is out, broken off as wished, or the client has gone. */
export async function send(request: IncomingMessage, response: ServerResponse, reply: Reply, wishes: Wishes) {
  const encoding = acceptedEncoding(request, wishes.encoding);
  response.writeHead(reply.kind === "json" ? reply.status : 200, {
    "content-type": reply.kind === "json" ? "application/json" : "text/event-stream; charset=utf-8",
    ...(reply.kind === "events" && { "cache-control": "no-cache" }),
    ...(encoding !== undefined && { "content-encoding": encoding }),
  });
  const encoder = openEncoder(encoding);
  const pieces = reply.kind === "json" ? halves(JSON.stringify(reply.body)) : reply.events;
  // A whole answer is broken off in its middle, a stream after as many events as wished.
  const abortAfter = wishes.abortAfter === undefined || reply.kind === "events" ? wishes.abortAfter : 1;
  await sendPieces(response, encoder, {
    pieces: pieces.slice(0, abortAfter),
    delayMs: wishes.delayMs ?? (reply.kind === "json" ? 0 : defaultDelayMs),
  });
  if (abortAfter !== undefined) response.destroy();
  else response.end(await encoder.finish());
}

async function sendPieces(
  response: ServerResponse,
  encoder: Encoder,
  { pieces, delayMs }: { readonly pieces: readonly string[]; readonly delayMs: number },
): Promise<void> {
  for (const piece of pieces) {
    if (delayMs > 0) await delay(delayMs);
    if (response.destroyed) return;
    const bytes = await encoder.encode(piece);
    // The callback comes when the bytes are with the kernel, or will never be.
    await new Promise<void>((resolve) => response.write(bytes, () => resolve()));
  }
}

/** The wished encoding, if the client can read it: whoever says nothing of encodings can read any (RFC 9110 §12.5.3). */
function acceptedEncoding(request: IncomingMessage, wished: Encoding | undefined): Encoding | undefined {
  const accepted = request.headers["accept-encoding"]?.toString();
  if (wished === undefined || accepted === undefined) return wished;
  const names = accepted.split(",").map((item) => item.split(";")[0]?.trim().toLowerCase());
  return names.includes(wished) || names.includes("*") ? wished : undefined;
}

function halves(text: string): readonly string[] {
  const middle = text.length >> 1;
  return [text.slice(0, middle), text.slice(middle)];
}
