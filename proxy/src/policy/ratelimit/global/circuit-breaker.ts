/**
 * A circuit breaker for a rate limit service. It opens after several failures in a row. Then no request waits for the
 * service. After each pause one probe is sent, and its response closes the breaker. A probe is a copy of a request's
 * call; no request waits for it.
 *
 * If no request arrives that can be copied, a health check replaces the probe, so that a proxy without traffic detects
 * the recovery of the service. A healthy service closes the breaker on probation: the first failure opens it again, and
 * from then on only a response to a call closes it.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** The clock, and the receivers of changes and of due probes. */
export interface CircuitBreakerOptions {
  /** Times the pauses of 500 ms between probes. */
  readonly clock: Clock;
  /** Called on every change; `cause` is the failure that opened the breaker. */
  readonly onChange: (isOpen: boolean, cause: string) => void;
  /** Called on the first response to a call since the breaker opened. */
  readonly onRecovered: () => void;
  /**
   * Called when a probe is due. `isOverdue`: it has been due for a whole pause, and no request arrived that could be
   * copied.
   */
  readonly onProbeDue: (isOverdue: boolean) => void;
}

/** Failures in a row that open the breaker. A single failure may be coincidence. */
const failuresToOpen = 5;
/** The pause between probes: short, so that counting is global again soon after the service recovers. */
const probePauseMs = 500;
/** The longest wait for a probe beyond the timeout of its request. No request waits for it. */
const maxProbeTimeoutMs = 1_000;

/**
 * The circuit breaker of one worker for one service.
 * - Closed: calls are made. Five failures in a row open it.
 * - Open: calls with a timeout up to that of the failures are not made. A response to a probe closes it. A health
 *   check, or a response to another worker, closes it on probation.
 * - Closed on probation: calls are made. A response ends the probation, and the first failure opens it.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  #failures = 0;
  /** The shortest timeout of the failures in a row, in milliseconds. */
  #failedMs = Number.POSITIVE_INFINITY;
  /** The breaker is open for calls with at most this timeout, as of the last opening. */
  #openForMs = Number.POSITIVE_INFINITY;
  #timer: Timer | undefined;
  #isProbeDue = false;
  #isOpen = false;
  #hasEnded = false;
  /** Closed by a health check or by another worker's response, and no call of this worker has had a response since. */
  #isOnProbation = false;
  /** Whether the service failed calls after it had reported itself as healthy. */
  #isHealthMisleading = false;

  constructor(options: CircuitBreakerOptions) {
    this.#options = options;
  }

  /** Returns whether the breaker is open for some calls. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Returns whether calls with this timeout must not be made. A service that is too slow for a policy with a short
   * timeout still serves those with a longer one.
   */
  isOpenFor(timeoutMs: number): boolean {
    return this.#isOpen && timeoutMs <= this.#openForMs;
  }

  /**
   * Returns the timeout of a probe that copies a call with this timeout: at least the timeout of the calls that the
   * breaker prevents now, within a second.
   */
  probeTimeoutMs(timeoutMs: number): number {
    return Math.max(timeoutMs, Math.min(this.#openForMs, maxProbeTimeoutMs));
  }

  /** Takes the permission for the one probe of this pause. Returns false if there is none. */
  acquireProbe(): boolean {
    if (!this.#isProbeDue) return false;
    this.#stop();
    return true;
  }

  /** Returns a permission that was not used. */
  releaseProbe(): void {
    if (!this.#isOpen) return;
    this.#isProbeDue = true;
    this.#scheduleProbe();
  }

  /**
   * Records a response. A response that took longer than the timeout of the failed calls does not close the breaker for
   * them.
   */
  succeeded(durationMs: number): void {
    if (durationMs > (this.#isOpen || this.#isOnProbation ? this.#openForMs : this.#failedMs)) {
      if (this.#isOpen && !this.#isProbeDue) this.#scheduleProbe();
      return;
    }
    this.#failedMs = Number.POSITIVE_INFINITY;
    const wasUnavailable = this.#isOpen || this.#isOnProbation;
    this.#failures = 0;
    this.#isOnProbation = false;
    this.#isHealthMisleading = false;
    if (this.#isOpen) this.#close();
    if (wasUnavailable) this.#options.onRecovered();
  }

  /**
   * Records the result of a health check that replaced a probe.
   *
   * @param error Undefined: the service is healthy.
   */
  healthChecked(error: string | undefined): void {
    if (!this.#isOpen) return;
    if (error === undefined && !this.#isHealthMisleading) {
      this.#isOnProbation = true;
      this.#close();
      return;
    }
    // A health check that reports the failure is trusted when it reports the recovery.
    if (error !== undefined) this.#isHealthMisleading = false;
    this.releaseProbe();
  }

  /** Records a response to another worker: the breaker closes on probation. */
  succeededInOtherWorker(): void {
    if (!this.#isOpen) return;
    this.#isOnProbation = true;
    this.#close();
  }

  /**
   * Records the failure of a call or probe that suggests that the service is unavailable.
   *
   * @param timeoutMs The timeout of a call that timed out. The failure does not count for calls with a longer timeout.
   */
  failed(cause: string, timeoutMs = Number.POSITIVE_INFINITY): void {
    if (this.#hasEnded) return;
    // The probe has ended.
    if (this.#isOpen && !this.#isProbeDue) this.#scheduleProbe();
    // A call that began before the breaker opened changes nothing.
    if (this.isOpenFor(timeoutMs)) return;
    this.#failures++;
    this.#failedMs = Math.min(this.#failedMs, timeoutMs);
    const failsAgain = this.#isOnProbation && timeoutMs <= this.#openForMs;
    if (this.#failures < failuresToOpen && !failsAgain) return;
    this.#openForMs = this.#failedMs;
    this.#failures = 0;
    this.#failedMs = Number.POSITIVE_INFINITY;
    if (this.#isOpen) return;
    this.#isHealthMisleading = this.#isOnProbation;
    this.#isOnProbation = false;
    this.#isOpen = true;
    this.#scheduleProbe();
    this.#options.onChange(true, cause);
  }

  /** Stops: requests no probe and reports no change any more. */
  close(): void {
    this.#hasEnded = true;
    this.#stop();
  }

  #close(): void {
    this.#isOpen = false;
    this.#stop();
    this.#options.onChange(false, "");
  }

  #scheduleProbe(): void {
    if (this.#timer !== undefined || this.#hasEnded) return;
    this.#timer = this.#options.clock.setTimer(probePauseMs, () => {
      const isOverdue = this.#isProbeDue;
      this.#timer = undefined;
      this.#isProbeDue = true;
      this.#scheduleProbe();
      this.#options.onProbeDue(isOverdue);
    });
  }

  #stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#isProbeDue = false;
  }
}
