/**
 * A client of one rate limit service for the limits of this worker: calls for decisions, guarded by a circuit breaker,
 * and charges, which no request waits for. The result of every call updates the state of the service. Outlives
 * snapshots.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { WireError } from "@gatewayproxy/protos/wire-reader";
import { CircuitBreaker } from "./circuit-breaker.ts";
import { ChargeDelivery } from "./charge-delivery.ts";
import type { RateLimitRequest } from "./messages.ts";
import type { GlobalLimitObserver } from "./observer.ts";
import { decodeRateLimitResponse, encodeRateLimitRequest } from "./rate-limit-codec.ts";
import type { ObserveCall, ServiceOutcome } from "./service-call.ts";
import { identifyService, type ServiceIdentity } from "./service-identity.ts";
import {
  type CallFailure,
  type CallOutcome,
  callFailure,
  type FailureCause,
} from "@gatewayproxy/grpc/client/unary-client";
import { markedClient } from "./grpc/marked-client.ts";
import type { Endpoints, UnaryClient } from "./grpc/unary-client.ts";

/** The methods of a service; the last two are Limitador's own. */
export const methods = {
  shouldRateLimit: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
  checkRateLimit: "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit",
  report: "/kuadrant.service.ratelimit.v1.RateLimitService/Report",
} as const;

/** The methods that decide or charge. */
export type Method = keyof typeof methods;

/** One service, and the receivers of its events. */
export interface ServiceClientOptions {
  /** The service's key. */
  readonly key: string;
  /** Sends the calls; `ServiceClient.close` closes it. */
  readonly client: UnaryClient;
  /** Times calls, the circuit breaker and charges. */
  readonly clock: Clock;
  /** Receives the outcome of each call and the changes of the circuit breaker. */
  readonly observer: GlobalLimitObserver;
  /** As `GlobalLimiterOptions.onError`. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** Called when the service responds to a call after it was unavailable. */
  readonly onRecovered?: () => void;
}

/** The state of a service, for operators. */
export interface ServiceState {
  readonly service: string;
  readonly breaker: "closed" | "open";
  /** When the breaker took this state, in milliseconds since the epoch. */
  readonly sinceMs: number;
  /** Why the breaker is open; absent while it is closed. */
  readonly cause?: string;
  /** The last failed call, also of a service that has recovered; absent if none failed. */
  readonly lastError?: { readonly message: string; readonly atMs: number };
  /**
   * Calls without a decision since the last one with a decision, for any reason. The breaker may be closed
   * nevertheless.
   */
  readonly failuresInARow: number;
  /** When the service last decided or reported itself healthy, in milliseconds since the epoch; absent before. */
  readonly respondedMs?: number;
  /** Charges that wait for the service. */
  readonly chargesBuffered: number;
  /** Denials that are cached, so that clients over their limit cause no calls. */
  readonly denialsCached: number;
  /** Limits that it has reported, for the time when it is unavailable. */
  readonly limitsLearned: number;
  /** The program of the service; absent until it is identified, and while it is unavailable. */
  readonly identity?: ServiceIdentity;
}

/** What a worker keeps of the responses of a service. */
type Kept = Pick<ServiceState, "denialsCached" | "limitsLearned">;

/**
 * The service counts as overloaded after this many decisions in a row that fail with RESOURCE_EXHAUSTED, over at least
 * this time.
 */
const minExhaustions = 20;
const overloadMs = 1_000;
/** Charges are off the request path, so they may take longer. A service that exceeds this is unavailable. */
const chargeTimeoutMs = 5_000;

/** The method of grpc.health.v1, which envoyproxy/ratelimit and `ratelimit-service` support for the whole server. */
const healthPath = "/grpc.health.v1.Health/Check";
/** HealthCheckRequest with an empty `service`: the whole server. */
const noService = Buffer.alloc(0);
const healthTimeoutMs = 2_000;
/** HealthCheckResponse of SERVING: field 1, a varint, is 1. */
const servingMessage = Buffer.from([8, 1]);

/**
 * Causes that mean that the service is unavailable. With all others it is reachable, but rejects the call or sends an
 * invalid response.
 */
const unavailableCauses: ReadonlySet<FailureCause> = new Set(["timeout", "unavailable", "failed"]);

const breakerIsOpen = callFailure("unavailable", "the circuit breaker is open");

/** The client of one worker for one rate limit service. */
export class ServiceClient {
  readonly #options: ServiceClientOptions;
  readonly #client: UnaryClient;
  readonly #breaker: CircuitBreaker;
  readonly #charges: ChargeDelivery;
  /** A charge has been the probe since the breaker last changed. */
  #hasProbedByCharge = false;
  #isMisbehaving = false;
  #failuresInARow = 0;
  /** Decisions in a row that failed with RESOURCE_EXHAUSTED, and since when. */
  #exhaustions = { count: 0, sinceMs: 0 };
  #respondedMs: number | undefined;
  #cause = "";
  #sinceMs: number;
  #lastError: ServiceState["lastError"];
  /** Reset when the service becomes unavailable or gets other endpoints, since another program may replace it. */
  #identity: { known?: ServiceIdentity | undefined } | undefined;

  constructor(options: ServiceClientOptions) {
    const { key, clock, observer } = options;
    this.#options = options;
    this.#client = markedClient(options.client);
    this.#sinceMs = clock.nowMs();
    this.#breaker = new CircuitBreaker({
      clock,
      onChange: (isOpen, cause) => {
        this.#cause = cause;
        this.#sinceMs = clock.nowMs();
        this.#hasProbedByCharge = false;
        this.#identity = undefined;
        observer.breakerChanged(key, isOpen, cause);
        if (!isOpen) this.#recordSuccess();
        this.#charges.availabilityChanged();
      },
      onRecovered: () => options.onRecovered?.(),
      onProbeDue: (isOverdue) => this.#probe(isOverdue),
    });
    this.#charges = new ChargeDelivery({
      clock,
      isAvailable: () => !this.#breaker.isOpen,
      send: ({ path, message }, observe, done) => {
        const observed = observe?.();
        const onEnd = (response: ServiceOutcome): void => {
          observed?.ended(response);
          done(response.kind === "failed" ? response : undefined);
        };
        this.#call(path, message, chargeTimeoutMs, onEnd, 0, observed?.fields);
      },
      onBuffered: (count) => observer.chargesBuffered(key, count),
      onDropped: (reason) => observer.chargeDropped(key, reason),
    });
  }

  /** Sets the endpoints of the service. */
  update(endpoints: Endpoints): void {
    this.#identity = undefined;
    this.#client.update(endpoints);
  }

  /**
   * Calls the service for a decision. `done` is called once, at the latest after `timeoutMs`; at once while the breaker
   * is open. In that case the call may still be sent as a probe.
   *
   * @param fields to send with the call: names in lower case and values, in turn.
   */
  decide(
    method: Method,
    call: RateLimitRequest,
    timeoutMs: number,
    done: (response: ServiceOutcome) => void,
    fields?: readonly string[],
  ): void {
    if (!this.#breaker.isOpenFor(timeoutMs)) {
      this.#sendDecisionCall(method, call, timeoutMs, done, fields);
      return;
    }
    done(breakerIsOpen);
    if (!this.#breaker.acquireProbe()) return;
    const probeMs = this.#breaker.probeTimeoutMs(timeoutMs);
    this.#sendDecisionCall(method, probeOf(call), probeMs, () => undefined);
  }

  #sendDecisionCall(
    method: Method,
    call: RateLimitRequest,
    timeoutMs: number,
    done: (response: ServiceOutcome) => void,
    fields?: readonly string[],
  ): void {
    this.#call(methods[method], encodeRateLimitRequest(call), timeoutMs, done, call.descriptors.length, fields);
  }

  /**
   * Counts decisions that fail with RESOURCE_EXHAUSTED. Charges are not counted: they have their own pauses and may be
   * too large.
   */
  #countExhaustion(response: ServiceOutcome): void {
    const isAccepted = response.kind === "responded" || response.cause !== "exhausted";
    if (isAccepted) this.#exhaustions.count = 0;
    else if (this.#exhaustions.count++ === 0) this.#exhaustions.sinceMs = this.#nowMs();
  }

  get #isOverloaded(): boolean {
    const { count, sinceMs } = this.#exhaustions;
    return count >= minExhaustions && this.#nowMs() - sinceMs >= overloadMs;
  }

  /**
   * Charges hits. While the service is unavailable the charge is kept and sent later.
   *
   * @param observe as `ChargeDelivery.deliver`.
   */
  charge(method: Method, call: RateLimitRequest, observe?: ObserveCall): void {
    const message = encodeRateLimitRequest(call);
    this.#charges.deliver({ path: methods[method], message, createdMs: this.#nowMs() }, observe);
  }

  /**
   * Refunds hits. Unlike a charge it is sent at most once, since a refund that arrives twice would allow more than the
   * limit. While the service is unavailable it waits.
   *
   * @param observe as `ChargeDelivery.deliver`.
   */
  refund(call: RateLimitRequest, observe?: ObserveCall): void {
    const message = encodeRateLimitRequest(call);
    const path = methods.shouldRateLimit;
    this.#charges.deliver({ path, message, createdMs: this.#nowMs(), isRefund: true }, observe);
  }

  /** Records that the service responds to another worker, so that this worker does not wait for its own probe. */
  succeededInOtherWorker(): void {
    this.#breaker.succeededInOtherWorker();
  }

  /**
   * Returns the state for operators. The first call starts the identification of the service's program, so that the
   * service gets these extra calls only if an operator reads the state.
   *
   * @param kept what the worker has of the service, as in `ServiceState`.
   */
  state(kept: Kept = { denialsCached: 0, limitsLearned: 0 }): ServiceState {
    const { isOpen } = this.#breaker;
    if (!isOpen) void this.#identify();
    const identity = this.#identity?.known;
    return {
      service: this.#options.key,
      breaker: isOpen ? "open" : "closed",
      sinceMs: this.#sinceMs,
      ...(isOpen && { cause: this.#cause }),
      ...(this.#lastError !== undefined && { lastError: this.#lastError }),
      failuresInARow: this.#failuresInARow,
      ...(this.#respondedMs !== undefined && { respondedMs: this.#respondedMs }),
      chargesBuffered: this.#charges.size,
      ...kept,
      ...(identity !== undefined && { identity }),
    };
  }

  /**
   * Resolves when no charge is in progress and none can be sent. Charges that wait for an unavailable service are
   * dropped.
   */
  idle(): Promise<void> {
    return this.#charges.idle();
  }

  /** Closes the client: sends nothing any more. */
  close(): void {
    const { observer, key } = this.#options;
    this.#breaker.close();
    this.#charges.close();
    this.#client.close();
    observer.retired(key);
  }

  /**
   * Probes with a charge if one waits, otherwise with the next decision; if no decision follows, with a health check.
   * After the first charge, decisions come first, because a charge may fail for its own content.
   */
  #probe(isOverdue: boolean): void {
    if (this.#charges.size > 0) {
      if (this.#hasProbedByCharge && !isOverdue) return;
      this.#hasProbedByCharge = true;
      if (this.#breaker.acquireProbe() && !this.#charges.probe()) this.#breaker.releaseProbe();
    } else if (isOverdue && this.#breaker.acquireProbe()) {
      this.#checkHealth();
    }
  }

  #checkHealth(): void {
    this.#client.call(healthPath, noService, healthTimeoutMs, (outcome) => {
      const error = healthError(outcome);
      if (error !== undefined) this.#lastError = { message: error, atMs: this.#options.clock.nowMs() };
      this.#breaker.healthChecked(error);
    });
  }

  /** Never rejects. */
  async #identify(): Promise<void> {
    if (this.#identity !== undefined) return;
    const identification: { known?: ServiceIdentity | undefined } = {};
    this.#identity = identification;
    identification.known = await identifyService(this.#client);
    // The next read of the state identifies it again.
    if (identification.known === undefined && this.#identity === identification) this.#identity = undefined;
  }

  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }

  /**
   * @param decided The number of descriptors of a call for a decision: a request waits for it, or would if the breaker
   *   were closed. 0 for a charge.
   */
  #call(
    path: string,
    message: Buffer,
    timeoutMs: number,
    done: (response: ServiceOutcome) => void,
    decided = 0,
    fields?: readonly string[],
  ): void {
    const startMs = this.#nowMs();
    const isDecision = decided > 0;
    const onEnd = (outcome: CallOutcome): void => {
      const response = readOutcome(outcome, decided);
      try {
        if (isDecision) this.#countExhaustion(response);
        this.#recordOutcome(response, startMs, timeoutMs, isDecision);
      } catch (error) {
        const { onError } = this.#options;
        if (onError === undefined) throw error;
        onError(error);
      }
      // The caller waits only for this.
      done(response);
    };
    this.#client.call(path, message, timeoutMs, onEnd, fields);
  }

  #recordOutcome(response: ServiceOutcome, startMs: number, timeoutMs: number, isDecision: boolean): void {
    const { key, observer, clock } = this.#options;
    const durationMs = this.#nowMs() - startMs;
    if (response.kind === "responded") {
      this.#isMisbehaving = false;
      this.#recordSuccess();
      observer.callEnded(key, response.response.overallCode === "OVER_LIMIT" ? "overLimit" : "ok", durationMs);
      this.#breaker.succeeded(durationMs);
      return;
    }
    observer.callEnded(key, response.cause, durationMs);
    this.#failuresInARow++;
    this.#lastError = { message: response.message, atMs: clock.nowMs() };
    if (!unavailableCauses.has(response.cause) && !this.#isMisbehaving) {
      this.#isMisbehaving = true;
      observer.misbehaved(key, response.message);
    }
    if (response.cause === "exhausted" && this.#isOverloaded) this.#breaker.failed(response.message);
    // A rejection of this one call shows that the service is available for others.
    else if (isCallRejected(response)) this.#breaker.succeeded(durationMs);
    // A charge may be the only call at which the service fails, and must not open the breaker for decisions.
    else if (response.cause === "failed" && !isDecision && !this.#breaker.isOpen) return;
    else this.#breaker.failed(response.message, response.cause === "timeout" ? timeoutMs : undefined);
  }

  #recordSuccess(): void {
    this.#failuresInARow = 0;
    this.#respondedMs = this.#options.clock.nowMs();
  }
}

/**
 * Returns the copy of a call. An estimate that it counted would stay, since the request is decided without it, and
 * charges its usage. Services that know no hits of descriptors count 1.
 */
function probeOf(call: RateLimitRequest): RateLimitRequest {
  if (call.reserves !== true) return call;
  const { domain, hits, descriptors } = call;
  return {
    domain,
    ...(hits !== undefined && { hits: 1 }),
    descriptors: descriptors.map((descriptor) => ({ ...descriptor, hits: 0 })),
  };
}

function isCallRejected({ cause }: CallFailure): boolean {
  return cause === "rejected" || cause === "exhausted";
}

/** Returns the error of a health check; undefined if the service is healthy, or reachable without that method. */
function healthError(outcome: CallOutcome): string | undefined {
  if (outcome.kind === "failed") return isCallRejected(outcome) ? undefined : outcome.message;
  return outcome.message.equals(servingMessage) ? undefined : "the service reports that it is not serving";
}

function readOutcome(outcome: CallOutcome, descriptors: number): ServiceOutcome {
  if (outcome.kind === "failed") return outcome;
  try {
    const response = decodeRateLimitResponse(outcome.message, descriptors);
    if (response.overallCode === "UNKNOWN") {
      return callFailure("unknown", "the service responded with overall code UNKNOWN");
    }
    return { kind: "responded", response };
  } catch (error) {
    const message = error instanceof WireError ? error.message : String(error);
    return callFailure("garbage", `a response that cannot be read: ${message}`);
  }
}
