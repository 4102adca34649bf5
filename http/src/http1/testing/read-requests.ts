/**
 * Reads a stream of requests as a server does, for tests: everything that the bytes contain, and where reading stopped.
 */
import { type BodyDecoder, ChunkedDecoder, LengthDecoder } from "../body-decoder.ts";
import { HeadReader } from "../head-reader.ts";
import { MessageError } from "../message-error.ts";
import { parseRequestHead, type RequestHead } from "../request-head.ts";

/** The bounds of the tests. */
export const testLimits = { fields: 200, target: 16 * 1024, trailerBytes: 64 * 1024 };

/** A request as it was read. */
export interface ReadRequest {
  readonly head: RequestHead;
  readonly body: string;
  /** Whether the end of the body was received. */
  readonly isComplete: boolean;
  readonly trailers: readonly string[];
}

/** All that could be read. */
export interface ReadStream {
  readonly requests: readonly ReadRequest[];
  /** Position behind the last complete request. */
  readonly end: number;
  /** Status and message of the error that ended reading. */
  readonly error: string | undefined;
}

/** Reads chunks, which together are the stream of one connection. */
export function readRequests(chunks: readonly Buffer[]): ReadStream {
  const requests: ReadRequest[] = [];
  /** Position of the current chunk. */
  let offset = 0;
  let endOfLast = 0;
  let reader = new HeadReader(64 * 1024);
  let current: { head: RequestHead; decoder: BodyDecoder; parts: Buffer[] } | undefined;
  const finish = (isComplete: boolean, trailers: readonly string[]): void => {
    if (current === undefined) return;
    requests.push({ head: current.head, body: Buffer.concat(current.parts).toString("latin1"), isComplete, trailers });
    current = undefined;
  };
  const sink = {
    onData: (bytes: Buffer) => void current?.parts.push(Buffer.from(bytes)),
    onEnd: (trailers: readonly string[]) => finish(true, trailers),
  };
  try {
    for (const chunk of chunks) {
      let at = 0;
      while (at < chunk.length) {
        if (current !== undefined) {
          const end = current.decoder.decode(chunk, at, sink);
          at = end === -1 ? chunk.length : end;
          if (end === -1) continue;
          endOfLast = offset + end;
          if (requests.at(-1)?.head.keepsAlive === false) return { requests, end: endOfLast, error: undefined };
          continue;
        }
        const found = reader.read(chunk, at);
        if (found === undefined) break;
        at = found.end;
        reader = new HeadReader(64 * 1024);
        const head = parseRequestHead(found.text, testLimits);
        const { bodyLength } = head;
        if (bodyLength === 0) {
          requests.push({ head, body: "", isComplete: true, trailers: [] });
          endOfLast = offset + at;
        } else {
          const decoder = bodyLength === "chunked" ? new ChunkedDecoder(testLimits) : new LengthDecoder(bodyLength);
          current = { head, decoder, parts: [] };
        }
        if (!head.keepsAlive && current === undefined) return { requests, end: endOfLast, error: undefined };
      }
      offset += chunk.length;
    }
  } catch (error) {
    if (!(error instanceof MessageError)) throw error;
    finish(false, []);
    return { requests, end: endOfLast, error: `${error.status} ${error.message}` };
  }
  finish(false, []);
  return { requests, end: endOfLast, error: undefined };
}
