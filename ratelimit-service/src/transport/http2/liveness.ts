/** Notices peers that never greet or that are gone without a word, by a look now and then instead of timers of their own. */

/** Times of a peer's patience and ours, in milliseconds. */
export interface LivenessLimits {
  readonly greetingTimeoutMs: number;
  readonly keepaliveTimeMs: number;
  readonly keepaliveTimeoutMs: number;
}

export class Liveness {
  readonly #limits: LivenessLimits;
  /** Set on each chunk of input; cheaper there than reading the clock. */
  sawInput = false;
  #quietSinceMs: number;
  #pingedAtMs: number | undefined;

  constructor(limits: LivenessLimits, nowMs: number) {
    this.#limits = limits;
    this.#quietSinceMs = nowMs;
  }

  /** What to do now: nothing, ask the peer, or give it up. */
  check(nowMs: number, isGreeted: boolean): "alive" | "ask" | "dead" {
    if (this.sawInput && isGreeted) {
      this.sawInput = false;
      this.#quietSinceMs = nowMs;
      this.#pingedAtMs = undefined;
      return "alive";
    }
    const quietMs = nowMs - this.#quietSinceMs;
    if (!isGreeted) {
      return quietMs >= this.#limits.greetingTimeoutMs ? "dead" : "alive";
    }
    if (this.#pingedAtMs !== undefined) {
      return nowMs - this.#pingedAtMs >= this.#limits.keepaliveTimeoutMs ? "dead" : "alive";
    }
    if (quietMs < this.#limits.keepaliveTimeMs) {
      return "alive";
    }
    this.#pingedAtMs = nowMs;
    return "ask";
  }
}
