/**
 * A client of one rate limit service for the limits of this worker: calls for decisions, guarded by a circuit breaker,
 * and charges, which no request waits for. The result of every call updates the state of the service. Outlives
 * snapshots.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { WireError } from "@gatewayproxy/protos/wire-reader";
import type { ServiceDenial } from "./service-headers.ts";
import { BoundedCache } from "./bounded-cache.ts";
import { CircuitBreaker } from "./circuit-breaker.ts";
import { ChargeDelivery } from "./charge-delivery.ts";
import { LearnedLimits } from "./learned-limits.ts";
import type { RateLimitResponse, RateLimitRequest } from "./messages.ts";
import type { GlobalLimitObserver } from "./observer.ts";
import { decodeRateLimitResponse, encodeRateLimitRequest } from "./rate-limit-codec.ts";
import { identifyService, type ServiceIdentity } from "./service-identity.ts";
import {
  type CallFailure,
  type CallOutcome,
  callFailure,
  type Endpoints,
  type FailureCause,
  type UnaryClient,
} from "./grpc/unary-client.ts";

/** The methods of a service; the last two are Limitador's own. */
export const methods = {
  shouldRateLimit: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
  checkRateLimit: "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit",
  report: "/kuadrant.service.ratelimit.v1.RateLimitService/Report",
} as const;

/** The methods that decide or charge. */
export type Method = keyof typeof methods;

/** The decoded response of a service, or the failure. */
export type ServiceOutcome = { readonly kind: "responded"; readonly response: RateLimitResponse } | CallFailure;

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
   * Calls without a decision since the last one with a decision, for any reason. The breaker can be closed all the
   * same.
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
  /** Which program it is; absent until it has said so, and while it is away. */
  readonly identity?: ServiceIdentity;
}

/** Maximum number of cached denials. */
const maxDenials = 10_000;
/** This many decisions in a row that fail with RESOURCE_EXHAUSTED, over this time, count as an overload. */
const exhaustionsOfOverload = 20;
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
 * Causes that mean that the service is unavailable. All others mean that it is reachable and does not do what it is
 * asked.
 */
const unavailableCauses: ReadonlySet<FailureCause> = new Set(["timeout", "unavailable", "failed"]);

const breakerIsOpen = callFailure("unavailable", "the circuit breaker is open");

/** A rate limit service as one worker sees it. */
export class ServiceClient {
  readonly #options: ServiceClientOptions;
  readonly #breaker: CircuitBreaker;
  /** Limits that the service reported, for when it is unavailable. */
  readonly learned = new LearnedLimits();
  /** Denials of the service that still last, by their descriptors. */
  readonly denials = new BoundedCache<ServiceDenial>(maxDenials);
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
  /** Forgotten when the service goes or moves, since another may come in its place. */
  #identity: { known?: ServiceIdentity | undefined } | undefined;

  constructor(options: ServiceClientOptions) {
    const { key, clock, observer } = options;
    this.#options = options;
    this.#sinceMs = clock.nowMs();
    this.#breaker = new CircuitBreaker({
      clock,
      onChange: (isOpen, cause) => {
        this.#cause = cause;
        this.#sinceMs = clock.nowMs();
        this.#hasProbedByCharge = false;
        this.#identity = undefined;
        observer.breakerChanged(key, isOpen, cause);
        if (!isOpen) this.#noteSuccess();
        this.#charges.availabilityChanged();
      },
      onRecovered: () => options.onRecovered?.(),
      onProbeDue: (isOverdue) => this.#probe(isOverdue),
    });
    this.#charges = new ChargeDelivery({
      clock,
      isAvailable: () => !this.#breaker.isOpen,
      send: ({ path, message }, done) => {
        const onEnd = (response: ServiceOutcome): void => done(response.kind === "failed" ? response : undefined);
        this.#call(path, message, chargeTimeoutMs, onEnd);
      },
      onBuffered: (count) => observer.chargesBuffered(key, count),
      onDropped: (reason) => observer.chargeDropped(key, reason),
    });
  }

  /** Sets the endpoints of the service. */
  update(endpoints: Endpoints): void {
    this.#identity = undefined;
    this.#options.client.update(endpoints);
  }

  /**
   * Calls the service for a decision. `done` is called once, at the latest after `timeoutMs`; at once while the breaker
   * is open. In that case the call may still be sent as a probe.
   */
  ask(method: Method, call: RateLimitRequest, timeoutMs: number, done: (response: ServiceOutcome) => void): void {
    if (!this.#breaker.isOpenFor(timeoutMs)) {
      this.#sendDecisionCall(methods[method], encodeRateLimitRequest(call), timeoutMs, done);
      return;
    }
    done(breakerIsOpen);
    if (!this.#breaker.takeProbe()) return;
    const probeMs = this.#breaker.probeTimeoutMs(timeoutMs);
    this.#sendDecisionCall(methods[method], encodeRateLimitRequest(call), probeMs, () => undefined);
  }

  #sendDecisionCall(path: string, message: Buffer, timeoutMs: number, done: (response: ServiceOutcome) => void): void {
    this.#call(path, message, timeoutMs, done, true);
  }

  /**
   * Counts decisions that fail for lack of room. Charges are not counted: they have pauses of their own and may be too
   * large.
   */
  #noteRoom(response: ServiceOutcome): void {
    const hasRoom = response.kind === "responded" || response.cause !== "exhausted";
    if (hasRoom) this.#exhaustions.count = 0;
    else if (this.#exhaustions.count++ === 0) this.#exhaustions.sinceMs = this.#nowMs();
  }

  get #isOverloaded(): boolean {
    const { count, sinceMs } = this.#exhaustions;
    return count >= exhaustionsOfOverload && this.#nowMs() - sinceMs >= overloadMs;
  }

  /** Charges hits. While the service is unavailable the charge is kept and sent later. */
  charge(method: Method, call: RateLimitRequest): void {
    this.#charges.deliver({ path: methods[method], message: encodeRateLimitRequest(call), madeMs: this.#nowMs() });
  }

  /** Records that the service responds to another worker, so that this worker does not wait for its own probe. */
  succeededElsewhere(): void {
    this.#breaker.succeededElsewhere();
  }

  /** The first time, it has the service asked which program it is, so that only operators cost it calls. */
  state(): ServiceState {
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
      denialsCached: this.denials.size,
      limitsLearned: this.learned.size,
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
    const { client, observer, key } = this.#options;
    this.#breaker.close();
    this.#charges.close();
    client.close();
    observer.retired(key);
  }

  /**
   * Probes with a charge if one waits, otherwise with the next decision; if none comes, with a health check. After the
   * first charge decisions come first, because a charge may fail for its own content.
   */
  #probe(isOverdue: boolean): void {
    if (this.#charges.size > 0) {
      if (this.#hasProbedByCharge && !isOverdue) return;
      this.#hasProbedByCharge = true;
      if (this.#breaker.takeProbe() && !this.#charges.probe()) this.#breaker.returnProbe();
    } else if (isOverdue && this.#breaker.takeProbe()) {
      this.#askHealth();
    }
  }

  #askHealth(): void {
    this.#options.client.call(healthPath, noService, healthTimeoutMs, (outcome) => {
      const fault = healthError(outcome);
      if (fault !== undefined) this.#lastError = { message: fault, atMs: this.#options.clock.nowMs() };
      this.#breaker.healthChecked(fault);
    });
  }

  /** Never rejects. */
  async #identify(): Promise<void> {
    if (this.#identity !== undefined) return;
    const asked: { known?: ServiceIdentity | undefined } = {};
    this.#identity = asked;
    asked.known = await identifyService(this.#options.client);
    // Asked again the next time.
    if (asked.known === undefined && this.#identity === asked) this.#identity = undefined;
  }

  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }

  /** @param isDecision The call is for a decision: a request waits for it, or would if the breaker were closed. */
  #call(
    path: string,
    message: Buffer,
    timeoutMs: number,
    done: (response: ServiceOutcome) => void,
    isDecision = false,
  ): void {
    const startMs = this.#nowMs();
    this.#options.client.call(path, message, timeoutMs, (outcome) => {
      const response = readOutcome(outcome);
      try {
        if (isDecision) this.#noteRoom(response);
        this.#learn(response, startMs, timeoutMs, isDecision);
      } catch (error) {
        const { onError } = this.#options;
        if (onError === undefined) throw error;
        onError(error);
      }
      // The caller waits only for this.
      done(response);
    });
  }

  #learn(response: ServiceOutcome, startMs: number, timeoutMs: number, isDecision: boolean): void {
    const { key, observer, clock } = this.#options;
    const durationMs = this.#nowMs() - startMs;
    if (response.kind === "responded") {
      this.#isMisbehaving = false;
      this.#noteSuccess();
      observer.called(key, response.response.overallCode === "OVER_LIMIT" ? "overLimit" : "ok", durationMs);
      this.#breaker.succeeded(durationMs);
      return;
    }
    observer.called(key, response.cause, durationMs);
    this.#failuresInARow++;
    this.#lastError = { message: response.message, atMs: clock.nowMs() };
    if (!unavailableCauses.has(response.cause) && !this.#isMisbehaving) {
      this.#isMisbehaving = true;
      observer.misbehaved(key, response.message);
    }
    if (response.cause === "exhausted" && this.#isOverloaded) this.#breaker.failed(response.message);
    // A rejection of this one call shows that the service is available for others.
    else if (isAboutCall(response)) this.#breaker.succeeded(durationMs);
    // A charge may be the only call at which the service fails, and must not open the breaker for decisions.
    else if (response.cause === "failed" && !isDecision && !this.#breaker.isOpen) return;
    else this.#breaker.failed(response.message, response.cause === "timeout" ? timeoutMs : undefined);
  }

  #noteSuccess(): void {
    this.#failuresInARow = 0;
    this.#respondedMs = this.#options.clock.nowMs();
  }
}

function isAboutCall({ cause }: CallFailure): boolean {
  return cause === "rejected" || cause === "exhausted";
}

/** Returns the error of a health check; undefined if the service is healthy, or reachable without that method. */
function healthError(outcome: CallOutcome): string | undefined {
  if (outcome.kind === "failed") return isAboutCall(outcome) ? undefined : outcome.message;
  return outcome.message.equals(servingMessage) ? undefined : "the service reports that it is not serving";
}

function readOutcome(outcome: CallOutcome): ServiceOutcome {
  if (outcome.kind === "failed") return outcome;
  try {
    const response = decodeRateLimitResponse(outcome.message);
    if (response.overallCode === "UNKNOWN") {
      return callFailure("unknown", "the service responded with overall code UNKNOWN");
    }
    return { kind: "responded", response };
  } catch (error) {
    const message = error instanceof WireError ? error.message : String(error);
    return callFailure("garbage", `a response that cannot be read: ${message}`);
  }
}
