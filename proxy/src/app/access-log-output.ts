/** The file of the access log in a worker: lines go to the main thread, which writes those of all workers. */
import { Writable } from "node:stream";
import type { FromWorker } from "./messages.ts";

/** The text that may wait for the main thread, in characters, before `writableNeedDrain`. */
const highWaterMark = 64 * 1_024;

/** A stream of whole lines to the main thread. One batch is on its way at a time. */
export class AccessLogOutput {
  readonly stream: Writable;
  #onWritten: (() => void) | undefined;

  constructor(send: (message: FromWorker) => void) {
    this.stream = new Writable({
      highWaterMark,
      decodeStrings: false,
      write: (lines: string, _encoding, done) => {
        this.#onWritten = done;
        send({ kind: "accessLines", lines });
      },
    });
  }

  /** To be called when the main thread has written the batch, or has lost it. */
  written(): void {
    this.#onWritten?.();
  }
}
