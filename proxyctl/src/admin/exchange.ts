/** One HTTP/1.1 request over a connection of a `Reach`, and the connection's end with it. */
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { type Duplex, finished } from "node:stream";

export interface Exchange {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** As `[name, value]`, sent in this order and as often as given. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body?: Buffer;
  readonly signal?: AbortSignal | undefined;
}

/** Sends the request and resolves with the head of the answer, whose body is the caller's to read. */
export async function exchange(connection: Duplex, options: Exchange): Promise<IncomingMessage> {
  const { method, path, headers, body, signal } = options;
  const call = request({
    method,
    path,
    setDefaultHeaders: false,
    headers: withLength(headers, method, body).flat(),
    createConnection: () => connection,
    ...(signal === undefined ? {} : { signal }),
  });
  call.end(body);
  // once() rejects with the request's error, should that come first. A connection that has failed by now says so to
  // nobody but finished().
  const event: readonly unknown[] = await Promise.race([once(call, "response"), endOf(connection)]);
  // The event's only argument is the answer (node:http `response`).
  return event[0] as IncomingMessage;
}

/** Rejects when the connection is over. */
function endOf(connection: Duplex): Promise<never> {
  return new Promise((_, reject) => {
    finished(connection, (error) => reject(error ?? new Error("the connection was closed without an answer")));
  });
}

type Fields = Exchange["headers"];

function withLength(headers: Fields, method: string, body: Buffer | undefined): Fields {
  const hasBody = body !== undefined || method === "POST" || method === "PUT" || method === "PATCH";
  const length: Fields = hasBody ? [["content-length", String(body?.length ?? 0)]] : [];
  return [...headers, ...length, ["connection", "close"]];
}

/** The whole body of an answer, of at most `maxBytes`. */
export async function readBody(answer: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of boundedBody(answer, maxBytes)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The body of an answer as it comes. Throws, and closes the connection, where it is longer than `maxBytes`. */
export async function* boundedBody(answer: IncomingMessage, maxBytes: number): AsyncGenerator<Buffer, void, undefined> {
  let bytes = 0;
  for await (const chunk of answer) {
    // A stream without encoding gives buffers.
    const buffer = chunk as Buffer;
    bytes += buffer.length;
    if (bytes > maxBytes) throw new Error(`the answer is longer than ${maxBytes / mebibyte} MiB`);
    yield buffer;
  }
}

export const mebibyte = 2 ** 20;
