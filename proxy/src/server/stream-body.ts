/** The body of a stream of node:http2 as the body of a request. */
import type { Readable } from "node:stream";
import type { BodyReceiver, IncomingBody } from "@gatewayproxy/http/ports";
import { boundChunks } from "./bound-chunks.ts";

/** Reads a stream. Trailers are not delivered. */
export class StreamBody implements IncomingBody {
  readonly #stream: Readable;

  constructor(stream: Readable) {
    this.#stream = stream;
  }

  get isPaused(): boolean {
    return this.#stream.isPaused();
  }

  read(receiver: BodyReceiver): void {
    let hasEnded = false;
    this.#stream
      .on("data", (bytes: Buffer) => receiver.onData(bytes))
      .on("end", () => {
        hasEnded = true;
        receiver.onEnd([]);
      })
      .on("close", () => {
        if (!hasEnded) receiver.onAborted();
      });
  }

  pause(): void {
    boundChunks(this.#stream);
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }
}
