/** One HTTP/1.1 request on its own connection of a `ProxyConnector`. */
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { type Duplex, finished } from "node:stream";

/** An HTTP request to send. */
export interface Exchange {
  readonly method: string;
  /** The path and query. */
  readonly path: string;
  /** Fields as `[name, value]`, sent in this order. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body?: Buffer;
  readonly signal?: AbortSignal | undefined;
}

/** Sends the request and resolves with the head of the response; the caller reads the body. */
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
  // once() rejects if the request fails first. A connection that has already failed is reported by finished() only.
  const event: readonly unknown[] = await Promise.race([once(call, "response"), endOf(connection)]);
  // The event's only argument is the response (node:http `response`).
  return event[0] as IncomingMessage;
}

/** Rejects when the connection ends. */
function endOf(connection: Duplex): Promise<never> {
  return new Promise((_, reject) => {
    finished(connection, (error) => reject(error ?? new Error("the connection was closed without a response")));
  });
}

type Fields = Exchange["headers"];

function withLength(headers: Fields, method: string, body: Buffer | undefined): Fields {
  const hasBody = body !== undefined || method === "POST" || method === "PUT" || method === "PATCH";
  const length: Fields = hasBody ? [["content-length", String(body?.length ?? 0)]] : [];
  return [...headers, ...length, ["connection", "close"]];
}

/** Reads the whole body of a response, of at most `maxBytes`. */
export async function readBody(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of boundedBody(response, maxBytes)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Yields the body of a response. Throws, and closes the connection, if it is longer than `maxBytes`. */
export async function* boundedBody(
  response: IncomingMessage,
  maxBytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  let bytes = 0;
  for await (const chunk of response) {
    // A stream without an encoding yields buffers.
    const buffer = chunk as Buffer;
    bytes += buffer.length;
    if (bytes > maxBytes) throw new Error(`the response is longer than ${maxBytes / mebibyte} MiB`);
    yield buffer;
  }
}

/** Bytes of a mebibyte. */
export const mebibyte = 2 ** 20;
