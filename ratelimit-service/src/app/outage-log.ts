/**
 * Logs the outages of a store: one line for each kind of error in an outage, and one when the store responds again. An
 * outage ends with the first response after a pause without errors, so that a store that fails in part is one outage,
 * too.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";

/** Time without an error after which a response ends an outage, in ms. */
const quietMs = 2_000;
/** Maximum number of kinds of errors that are logged in one outage. */
const maxKinds = 16;

export class OutageLog {
  readonly #store: string;
  readonly #log: Logger;
  readonly #clock: Clock;
  /** Start of the current outage on the monotonic clock; absent without one. */
  #startMs: number | undefined;
  #lastErrorMs = 0;
  readonly #kinds = new Set<string>();

  /** @param store name in the log, such as `redis` */
  constructor(store: string, log: Logger, clock: Clock) {
    this.#store = store;
    this.#log = log;
    this.#clock = clock;
  }

  failed(error: Error): void {
    this.#lastErrorMs = this.#clock.monotonicMs();
    this.#startMs ??= this.#lastErrorMs;
    const kind = kindOf(error);
    if (this.#kinds.has(kind) || this.#kinds.size === maxKinds) {
      if (this.#log.isLevelEnabled("debug")) this.#log.debug({ store: this.#store, err: error }, "store fails again");
      return;
    }
    this.#kinds.add(kind);
    this.#log.warn({ store: this.#store, err: error }, "store fails");
  }

  recovered(): void {
    if (this.#startMs === undefined) return;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#lastErrorMs < quietMs) return;
    const outageMs = Math.round(this.#lastErrorMs - this.#startMs);
    this.#log.info({ store: this.#store, outageMs }, "store responds again");
    this.#startMs = undefined;
    this.#kinds.clear();
  }
}

/** Returns the code of the system or the server (`ECONNREFUSED`, `NOAUTH`), else the message without its numbers. */
function kindOf({ message }: Error): string {
  return /\b[A-Z]{3,}\b/.exec(message)?.[0] ?? message.replace(/\d+/g, "");
}
