/** Detects peers that send no preface or that have disappeared, by a periodic check instead of timers. */

/** Timeouts of a peer, in milliseconds. */
export interface LivenessLimits {
  /** Time for the client's preface, from the start of the connection. */
  readonly prefaceTimeoutMs: number;
  /** Time without input after which the peer gets a PING. */
  readonly keepaliveTimeMs: number;
  /** Time for the peer to send anything after the PING. */
  readonly keepaliveTimeoutMs: number;
}

/** The liveness of one connection, which `check` advances about once a second. */
export class Liveness {
  readonly #limits: LivenessLimits;
  /** Set on each chunk of input; the next check reads the clock for all of them. */
  sawInput = false;
  #silentSinceMs: number;
  #pingedAtMs: number | undefined;

  constructor(limits: LivenessLimits, nowMs: number) {
    this.#limits = limits;
    this.#silentSinceMs = nowMs;
  }

  /** Returns the next step: nothing, send a PING, or close the connection. */
  check(nowMs: number, hasPreface: boolean): "alive" | "ping" | "timedOut" {
    if (this.sawInput && hasPreface) {
      this.sawInput = false;
      this.#silentSinceMs = nowMs;
      this.#pingedAtMs = undefined;
      return "alive";
    }
    const silentMs = nowMs - this.#silentSinceMs;
    if (!hasPreface) {
      return silentMs >= this.#limits.prefaceTimeoutMs ? "timedOut" : "alive";
    }
    if (this.#pingedAtMs !== undefined) {
      return nowMs - this.#pingedAtMs >= this.#limits.keepaliveTimeoutMs ? "timedOut" : "alive";
    }
    if (silentMs < this.#limits.keepaliveTimeMs) {
      return "alive";
    }
    this.#pingedAtMs = nowMs;
    return "ping";
  }
}
