/**
 * The destination of log lines: standard output, through `process.stdout` in every thread. Node passes the writes of a
 * worker to the main thread, and only the main thread writes to the file descriptor. So no line of one thread splits a
 * line of another (a pipe accepts at most 4 KiB in one piece when its reader is slow).
 */
import type { Writable } from "node:stream";
import type { Clock } from "../timing/clock.ts";

/** A destination of whole lines, newline included. */
export interface LogDestination {
  readonly write: (line: string) => void;
}

/** The size at which a batch is written. */
const batchChars = 64 * 1_024;
/** The longest time that a line waits for its batch. */
const batchMs = 100;
/**
 * The maximum size of the text that waits for the output. Beyond it, lines are dropped: a log must not fill the memory.
 */
const maxPendingChars = 8 * 1_024 * 1_024;

/** Options of a `BatchedDestination`. */
export interface BatchOptions {
  /** The stream that gets the batches. */
  readonly output: Writable;
  /** Times batches: a line waits for at most 100 ms. */
  readonly clock: Clock;
  /** Called for every line that is dropped since the output accepts no more. */
  readonly onDrop: () => void;
}

/** A destination that batches frequent lines: each write of a worker is a message to the main thread. */
export class BatchedDestination implements LogDestination {
  readonly #options: BatchOptions;
  #pending = "";
  #isTimerSet = false;

  constructor(options: BatchOptions) {
    this.#options = options;
  }

  readonly write = (line: string): void => {
    if (this.#pending.length + line.length > maxPendingChars) {
      this.#options.onDrop();
      return;
    }
    this.#pending += line;
    if (this.#pending.length >= batchChars) this.#writeIfAccepted();
    if (!this.#isTimerSet) this.#setTimer();
  };

  /** Writes the waiting lines and resolves when the output has accepted them. Call it at the end of a thread. */
  flush(): Promise<void> {
    return new Promise((resolve) => this.#writeBatch(resolve));
  }

  #setTimer(): void {
    this.#isTimerSet = true;
    this.#options.clock.setTimer(batchMs, () => {
      this.#isTimerSet = false;
      this.#writeIfAccepted();
      if (this.#pending !== "") this.#setTimer();
    });
  }

  #writeIfAccepted(): void {
    if (this.#pending !== "" && !this.#options.output.writableNeedDrain) this.#writeBatch(() => undefined);
  }

  #writeBatch(onWritten: () => void): void {
    const batch = this.#pending;
    this.#pending = "";
    this.#options.output.write(batch, () => onWritten());
  }
}

/**
 * Opens the standard output of this thread; call it once. Without a reader (EPIPE) or with a full disk (ENOSPC) lines
 * are lost, and the process goes on serving.
 */
export function openStdout(): Writable {
  return process.stdout.on("error", () => undefined);
}
