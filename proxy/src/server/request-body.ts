/**
 * Takes a request's body in hand for the way upstream. A small one whose length is known is read whole first (it then
 * leaves in one write with the head, and can be sent again); any other goes through as it comes, with back-pressure.
 */
import { Readable } from "node:stream";

/** Up to this length a body is read whole. */
const wholeBodyBytes = 64 * 1024;

/** A whole body, or a stream to be read once. */
export type RequestBody = Buffer | Readable;

/** A request's body and where its bytes are counted as they arrive. */
export interface BodySource {
  readonly stream: Readable;
  readonly record: { requestBytes: number };
}

/**
 * Calls `done` once with the body to send for a request with `headers` (flat); at once where it goes through as it
 * comes. Never calls it when the client goes away meanwhile.
 */
export function takeBody(source: BodySource, headers: readonly string[], done: (body: RequestBody) => void): void {
  const length = contentLengthOf(headers);
  if (length === undefined || length > wholeBodyBytes) done(passThrough(source));
  else readBody(source, wholeBodyBytes, done);
}

/** Reads up to `limitBytes`; a longer body becomes a stream that starts at its first byte. Calls `done` like `takeBody`. */
export function readBody(source: BodySource, limitBytes: number, done: (body: RequestBody) => void): void {
  const chunks: Buffer[] = [];
  const { stream, record } = source;
  const onData = (chunk: Buffer): void => {
    chunks.push(chunk);
    record.requestBytes += chunk.length;
    if (record.requestBytes <= limitBytes) return;
    stream.off("data", onData).off("end", onEnd).pause();
    done(passThrough(source, chunks));
  };
  const onEnd = (): void => {
    stream.off("data", onData);
    done(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks));
  };
  stream.on("data", onData).on("end", onEnd);
}

function contentLengthOf(headers: readonly string[]): number | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? "";
    if (name.length === 14 && name.toLowerCase() === "content-length") return Number(headers[i + 1]);
  }
  return undefined;
}

/**
 * A stream of its own over `source`: the transport destroys the body it is given when a call ends early, and to destroy
 * the client's stream would cut the client off before it has its answer.
 *
 * @param first what has been read of `source` already.
 */
function passThrough({ stream: source, record }: BodySource, first: readonly Buffer[] = []): Readable {
  const stream = new Readable({
    read: () => void source.resume(),
    destroy(error, callback) {
      source.off("data", onData).off("end", onEnd).off("close", onClose);
      // What the client still sends is read and dropped, so that its connection stays usable.
      source.resume();
      callback(error);
    },
  });
  const onData = (chunk: Buffer): void => {
    record.requestBytes += chunk.length;
    if (!stream.push(chunk)) source.pause();
  };
  const onEnd = (): void => void stream.push(null);
  const onClose = (): void => {
    if (!source.readableEnded) stream.destroy(new Error("the client broke its upload off"));
  };
  for (const chunk of first) stream.push(chunk);
  source.on("data", onData).on("end", onEnd).on("close", onClose);
  return stream;
}
