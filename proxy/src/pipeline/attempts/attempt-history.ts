/** What the attempts of a request have shown: it decides which attempts are repeated, and what is refunded. */
import type { RefundCause } from "../../ir/limit.ts";
import type { EndpointPool } from "../../upstream/endpoint-pool.ts";
import type { UpstreamFailure } from "../../upstream/failure.ts";
import { type LocalReply, upstreamFailed } from "../local-replies.ts";

/** The attempts of one request. */
export class AttemptHistory {
  readonly #tried: EndpointPool[] = [];
  /** An endpoint has not processed an attempt, which is repeated once more for that. */
  #wasUnprocessed = false;
  #hasTimedOut = false;
  #moves = 0;
  /** Of the latest attempt that an endpoint got; `none` if a policy never refunds it. */
  #cause: RefundCause | "none" | undefined;

  /** The endpoints of all attempts, in their order. */
  get tried(): readonly EndpointPool[] {
    return this.#tried;
  }

  /** Attempts that count for the bound of a request without a retry policy. */
  get countedAttempts(): number {
    return this.#tried.length - (this.#wasUnprocessed ? 1 : 0);
  }

  /** Attempts without those of a request that has moved to another provider: the ones that a retry policy counts. */
  get rounds(): number {
    return this.#tried.length - this.#moves;
  }

  /**
   * Whether an attempt has timed out whose backend may have worked all the time, so that its cost is estimated.
   * Attempts that were charged do not count.
   */
  get hasTimedOut(): boolean {
    return this.#hasTimedOut;
  }

  /** @returns whether the endpoint had an attempt of this request before. */
  add(pool: EndpointPool): boolean {
    const isRepeated = this.#tried.includes(pool);
    this.#tried.push(pool);
    return isRepeated;
  }

  /** The attempt has failed. */
  addFailure(failure: UpstreamFailure): void {
    const { refund = "none" } = upstreamFailed(failure);
    if (failure.isDisplaced === true) this.#cause = "none";
    else if (refund !== "ConnectFailure" && refund !== "Overload") this.#cause = refund;
    this.#hasTimedOut ||= failure.kind === "timeout";
  }

  /** The attempt is repeated, since its endpoint has not processed it. */
  addUnprocessed(): void {
    this.#wasUnprocessed = true;
  }

  /** The next attempt continues this one at another provider. */
  addMove(): void {
    this.#moves++;
  }

  /** All attempts up to now have been charged. */
  addCharge(): void {
    this.#hasTimedOut = false;
  }

  /** The attempt got a response that is not forwarded: it is retried, or another provider gets the request. */
  addRetriedStatus(): void {
    this.#cause = "BackendError";
  }

  /**
   * Returns the cause for which a policy may refund a request that ends with `reply`. An attempt that reached an
   * endpoint decides over a later one that did not: a backend that got the request does not count as one that was away.
   */
  refundCause(reply: LocalReply): RefundCause | undefined {
    return this.#cause === "none" ? undefined : (this.#cause ?? reply.refund);
  }
}

/** Whether a provider may bill an attempt that got no response. */
export function mayBeBilled({ kind, isDisplaced }: UpstreamFailure): boolean {
  return kind === "timeout" || kind === "reset" || isDisplaced === true;
}
