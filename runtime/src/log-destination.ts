/**
 * Where log lines go: the process's standard output, through `process.stdout` in every thread. Node hands what a worker
 * writes there to the main thread, which alone writes to the file descriptor, so that no line of one thread ever cuts a
 * line of another in two (a pipe takes no more than 4 KiB in one piece when its reader is slow).
 */
import type { Writable } from "node:stream";
import type { Clock } from "./clock.ts";

/** Takes whole lines, newline included. */
export interface LogDestination {
  readonly write: (line: string) => void;
}

/** What is written in one piece. */
const BATCH_CHARS = 64 * 1_024;
/** A line is at most this late. */
const BATCH_MS = 100;
/** Beyond this much text that the output has not taken, lines are dropped: a log must not fill the memory. */
const MAX_PENDING_CHARS = 8 * 1_024 * 1_024;

export interface BatchOptions {
  readonly output: Writable;
  readonly clock: Clock;
  /** Told of every line that is dropped because the output stands still. */
  readonly onDrop: () => void;
}

/** Gathers lines of a frequent kind, because handing over a line costs more than making one. */
export class BatchedDestination implements LogDestination {
  readonly #options: BatchOptions;
  #pending = "";
  #isTimerSet = false;

  constructor(options: BatchOptions) {
    this.#options = options;
  }

  readonly write = (line: string): void => {
    if (this.#pending.length + line.length > MAX_PENDING_CHARS) {
      this.#options.onDrop();
      return;
    }
    this.#pending += line;
    if (this.#pending.length >= BATCH_CHARS) this.#handIfTaken();
    if (!this.#isTimerSet) this.#setTimer();
  };

  /** Hands over what is held back; returns when the output has taken it. At the end of a thread. */
  flush(): Promise<void> {
    return new Promise((resolve) => this.#hand(resolve));
  }

  #setTimer(): void {
    this.#isTimerSet = true;
    this.#options.clock.setTimer(BATCH_MS, () => {
      this.#isTimerSet = false;
      this.#handIfTaken();
      if (this.#pending !== "") this.#setTimer();
    });
  }

  #handIfTaken(): void {
    if (this.#pending !== "" && !this.#options.output.writableNeedDrain) this.#hand(() => undefined);
  }

  #hand(onTaken: () => void): void {
    const batch = this.#pending;
    this.#pending = "";
    this.#options.output.write(batch, () => onTaken());
  }
}

/**
 * The standard output of this thread, to be opened once. A reader that has gone (EPIPE) and a disk that is full (ENOSPC)
 * lose lines, and are no reason to stop serving.
 */
export function openStdout(): Writable {
  return process.stdout.on("error", () => undefined);
}
