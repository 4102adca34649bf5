/**
 * Decides whether an attempt that failed, or got a status, is repeated.
 *
 * Without a retry policy: an attempt without a connection, one that the endpoint has not processed, and a safe one that
 * was reset before its response are repeated once, immediately (RFC 9110 §9.2.2). With `HTTPRouteRetry`, attempts of
 * any method that got one of its codes, or that no endpoint has processed, are repeated after a backoff, within the
 * retry budget of the backend. An attempt that was reset or timed out may have been processed: it is repeated if that
 * does no harm, which holds for idempotent methods and for requests to LLM providers.
 *
 * Of a Backend with several providers, the policy counts rounds: it decides when no provider is left, and the next
 * round may use each of them again.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { RetryPolicy } from "../../ir/snapshot.ts";
import type { ConnectionTarget } from "../../upstream/connection.ts";
import type { UpstreamFailure } from "../../upstream/failure.ts";
import type { RetryBudget } from "../../upstream/retry-budget.ts";
import { loopDetected } from "../local-replies.ts";
import type { OutgoingRequest } from "../provider-request.ts";
import type { AttemptHistory } from "./attempt-history.ts";
import type { RequestDeadline } from "./request-deadline.ts";

/** Whether another attempt follows, after `waitMs` milliseconds; `why` not, for the log, where a policy could retry. */
export type RetryDecision =
  | { readonly kind: "retry"; readonly waitMs: number }
  | { readonly kind: "stop"; readonly why: string | undefined };

/** One request, and the policy of its rule. */
export interface RetryRulesOptions {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Undefined repeats an attempt once, as the file comment says. */
  readonly policy: RetryPolicy | undefined;
  /** Of the backend. */
  readonly budget: RetryBudget;
  readonly request: OutgoingRequest;
  /** Whether the backend is an LLM provider, which may process a request twice: it keeps nothing of a generation. */
  readonly isForModel: boolean;
  readonly history: AttemptHistory;
  /** Whether the backend has several providers: a failed attempt then moves to the next one, and is not repeated. */
  readonly hasProviders: boolean;
  /** Undefined if the request has no timeout. */
  readonly deadline: RequestDeadline | undefined;
}

/** Without a policy: one more attempt, and yet one where an endpoint has not processed one. */
const attemptsWithoutPolicy = 2;
/** Waits double up to this, or to the policy's own `backoff` where that is longer. */
const maxBackoffMs = 10_000;
const stop: RetryDecision = { kind: "stop", why: undefined };
const immediately: RetryDecision = { kind: "retry", waitMs: 0 };

/** The decisions for one request. */
export class RetryRules {
  readonly #options: RetryRulesOptions;

  constructor(options: RetryRulesOptions) {
    this.#options = options;
  }

  /** Counts the request for the budget of the backend, of which retries are a part. */
  countRequest(): void {
    const { policy, budget, clock } = this.#options;
    if (policy !== undefined) budget.countRequest(clock.monotonicMs());
  }

  /** Whether the policy retries a status. A request that loops would be repeated at each pass, so a 508 ends it. */
  retries(status: number): boolean {
    return status !== loopDetected.status && this.#options.policy?.codes.includes(status) === true;
  }

  /** Whether no other attempt can follow once the endpoint has the complete body. */
  isLast(protocol: ConnectionTarget["protocol"]): boolean {
    const { policy, history, request } = this.#options;
    if (policy !== undefined) {
      if (history.rounds > policy.attempts) return true;
      return protocol !== "h2" && policy.codes.length === 0 && !this.#mayBeProcessedTwice;
    }
    // What HTTP/2 endpoints have not processed is sent again; a safe request whatever became of it.
    return protocol !== "h2" && !isSafe(request.method);
  }

  /** Decides after an attempt that failed before any part of its response was forwarded. */
  afterFailure(failure: UpstreamFailure): RetryDecision {
    const { policy, history } = this.#options;
    if (policy === undefined) {
      if (!this.#isRepeatable(failure)) return stop;
      if (failure.kind === "unprocessed") history.addUnprocessed();
      return immediately;
    }
    // A request that waited too long does not wait again, and a forbidden address stays forbidden.
    if (failure.kind === "overloaded" || failure.kind === "forbidden") return stop;
    const mayBeProcessed = failure.kind === "reset" || failure.kind === "timeout";
    if (mayBeProcessed && !this.#mayBeProcessedTwice) return stopSince("the endpoint may have processed the request");
    return this.byPolicy();
  }

  /** Decides by the policy alone. */
  byPolicy(): RetryDecision {
    const { policy, history, clock, random, budget, deadline } = this.#options;
    if (policy === undefined) return stop;
    const attempts = history.rounds;
    if (attempts > policy.attempts) return stopSince("retry.attempts is used up");
    if (!this.isBodyKept) return stopSince("the request body is not kept any more");
    const waitMs = backoffMs(policy.backoffMs, attempts, random());
    if (deadline !== undefined && waitMs >= deadline.remainingMs) return stopSince("timeouts.request ends before");
    if (!budget.tryRetry(clock.monotonicMs())) return stopSince("too many requests to the backend are retried");
    return { kind: "retry", waitMs };
  }

  /** Whether the body can be sent from its first byte again. */
  get isBodyKept(): boolean {
    return this.#options.request.body?.isReplayable !== false;
  }

  get #mayBeProcessedTwice(): boolean {
    const { request, isForModel } = this.#options;
    return isForModel || isIdempotent(request.method);
  }

  #isRepeatable({ kind }: UpstreamFailure): boolean {
    const { history, request, hasProviders } = this.#options;
    if (hasProviders || history.countedAttempts >= attemptsWithoutPolicy || !this.isBodyKept) return false;
    return kind === "connect" || kind === "unprocessed" || (kind === "reset" && isSafe(request.method));
  }
}

function stopSince(why: string): RetryDecision {
  return { kind: "stop", why };
}

/** Doubles with each attempt, and up to half as much again at random, so that clients that failed together spread. */
function backoffMs(baseMs: number, attempts: number, random: number): number {
  return Math.min(baseMs * 2 ** (attempts - 1), Math.max(baseMs, maxBackoffMs)) * (1 + random / 2);
}

/** RFC 9110 §9.2.1 */
function isSafe(method: string): boolean {
  return method === "GET" || method === "HEAD" || method === "OPTIONS";
}

/** RFC 9110 §9.2.2 */
function isIdempotent(method: string): boolean {
  return isSafe(method) || method === "PUT" || method === "DELETE" || method === "TRACE";
}
