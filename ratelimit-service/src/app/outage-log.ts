/**
 * The log of a store that fails: a line for each kind of error in an outage, and one when it answers again. An outage
 * ends with the first answer after a pause in the faults, so that a store of which a part fails is one outage, too.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";

/** Without a fault for so long, an answer ends an outage. */
const quietMs = 2_000;
/** Kinds of errors that are reported in one outage. */
const maxKinds = 16;

export class OutageLog {
  readonly #store: string;
  readonly #log: Logger;
  readonly #clock: Clock;
  /** Of the outage that is on; on the monotonic clock. */
  #startMs: number | undefined;
  #lastFaultMs = 0;
  readonly #kinds = new Set<string>();

  /** @param store what it is called in the log: `redis` */
  constructor(store: string, log: Logger, clock: Clock) {
    this.#store = store;
    this.#log = log;
    this.#clock = clock;
  }

  failed(error: Error): void {
    this.#lastFaultMs = this.#clock.monotonicMs();
    this.#startMs ??= this.#lastFaultMs;
    const kind = kindOf(error);
    if (this.#kinds.has(kind) || this.#kinds.size === maxKinds) {
      if (this.#log.isLevelEnabled("debug")) this.#log.debug({ store: this.#store, err: error }, "store fails again");
      return;
    }
    this.#kinds.add(kind);
    this.#log.warn({ store: this.#store, err: error }, "store fails");
  }

  answered(): void {
    if (this.#startMs === undefined) return;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#lastFaultMs < quietMs) return;
    const outageMs = Math.round(this.#lastFaultMs - this.#startMs);
    this.#log.info({ store: this.#store, outageMs }, "store answers again");
    this.#startMs = undefined;
    this.#kinds.clear();
  }
}

/** The code of the system or of the server (`ECONNREFUSED`, `NOAUTH`), else the text without its numbers. */
function kindOf({ message }: Error): string {
  return /\b[A-Z]{3,}\b/.exec(message)?.[0] ?? message.replace(/\d+/g, "");
}
