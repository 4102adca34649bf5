/** A response before it is sent, and how it is sent: whole or by event, compressed, slowly, or not to the end. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type Encoder, openEncoder } from "./encoder.ts";
import type { Encoding, ReplyOptions } from "./reply-options.ts";

export type Reply =
  | {
      readonly kind: "json";
      readonly status: number;
      readonly body: object;
      /** Further header fields. */
      readonly headers?: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "events";
      readonly events: readonly (string | Buffer)[];
      /** Default: server-sent events. */
      readonly contentType?: string;
    };

/** Returns one event of a stream, without a name, as in OpenAI's chat completions. */
export function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** The data of an event that has its type as name, as in all other APIs. */
export interface TypedData {
  readonly type: string;
  readonly [member: string]: unknown;
}

export function typedEvent(data: TypedData): string {
  return `event: ${data.type}\n${event(data)}`;
}

/** Default pause between the events of a stream, in ms: about reading speed. */
export const defaultDelayMs = 12;

/** Sends the response. Resolves when it is sent, cut off on request, or the client has disconnected. */
export async function send(request: IncomingMessage, response: ServerResponse, reply: Reply, options: ReplyOptions) {
  const encoding = acceptedEncoding(request, options.encoding);
  if (options.firstByteMs !== undefined) await pause(options.firstByteMs, response);
  if (response.destroyed) return;
  response.writeHead(reply.kind === "json" ? reply.status : 200, {
    ...budgetFields(options),
    ...(reply.kind === "json" && { "content-type": "application/json", ...reply.headers }),
    ...(reply.kind === "events" && {
      "content-type": reply.contentType ?? "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
    }),
    ...(encoding !== undefined && { "content-encoding": encoding }),
  });
  // The head of a stream arrives before its first event.
  if (reply.kind === "events") response.flushHeaders();
  const encoder = openEncoder(encoding);
  const pieces = reply.kind === "json" ? halves(JSON.stringify(reply.body)) : reply.events;
  // A whole response is cut off in its middle, a stream after the requested number of events.
  const abortAfter = options.abortAfter === undefined || reply.kind === "events" ? options.abortAfter : 1;
  await sendPieces(response, encoder, {
    pieces: pieces.slice(0, abortAfter),
    delayMs: options.delayMs ?? (reply.kind === "json" ? 0 : defaultDelayMs),
  });
  if (abortAfter !== undefined) response.destroy();
  else response.end(await encoder.finish());
}

/** The budget of requests of the next responses, in the fields of OpenAI. */
function budgetFields({ remaining, retryAfter = 1 }: ReplyOptions): Readonly<Record<string, string>> {
  if (remaining === undefined) return {};
  return {
    "x-ratelimit-remaining-requests": String(remaining),
    "x-ratelimit-reset-requests": `${retryAfter}s`,
  };
}

async function sendPieces(
  response: ServerResponse,
  encoder: Encoder,
  { pieces, delayMs }: { readonly pieces: readonly (string | Buffer)[]; readonly delayMs: number },
): Promise<void> {
  for (const piece of pieces) {
    if (delayMs > 0) await pause(delayMs, response);
    if (response.destroyed) return;
    const bytes = await encoder.encode(piece);
    // Called when the kernel has the bytes, or the connection is closed.
    await new Promise<void>((resolve) => response.write(bytes, () => resolve()));
  }
}

/**
 * Resolves after this time, or at once when the connection is closed: a pause must not keep an ending process alive.
 */
async function pause(ms: number, response: ServerResponse): Promise<void> {
  const closed = new AbortController();
  const abort = (): void => closed.abort();
  response.once("close", abort);
  await delay(response.destroyed ? 0 : ms, undefined, { signal: closed.signal }).catch(() => undefined);
  response.off("close", abort);
}

/**
 * Returns the requested encoding if the client accepts it. A client without Accept-Encoding accepts any (RFC 9110
 * §12.5.3).
 */
function acceptedEncoding(request: IncomingMessage, requested: Encoding | undefined): Encoding | undefined {
  const accepted = request.headers["accept-encoding"]?.toString();
  if (requested === undefined || accepted === undefined) return requested;
  const names = accepted.split(",").map((item) => item.split(";")[0]?.trim().toLowerCase());
  return names.includes(requested) || names.includes("*") ? requested : undefined;
}

function halves(text: string): readonly string[] {
  const middle = text.length >> 1;
  return [text.slice(0, middle), text.slice(middle)];
}
