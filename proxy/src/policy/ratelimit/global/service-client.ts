/**
 * One rate limit service as the limits of this worker use it: questions that a request waits for, guarded by a breaker,
 * and charges that nobody waits for. What comes of every call tells how the service is. Outlives snapshots.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { WireError } from "@gatewayproxy/protos/wire-reader";
import type { Refusal } from "./answer-headers.ts";
import { BoundedCache } from "./bounded-cache.ts";
import { Breaker } from "./breaker.ts";
import { ChargeDelivery } from "./charge-delivery.ts";
import { LearnedLimits } from "./learned-limits.ts";
import type { RateLimitAnswer, RateLimitCall } from "./messages.ts";
import type { GlobalLimitObserver } from "./observer.ts";
import { decodeRateLimitAnswer, encodeRateLimitCall } from "./rate-limit-codec.ts";
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

export type Method = keyof typeof methods;

export type Answer = { readonly kind: "answered"; readonly answer: RateLimitAnswer } | CallFailure;

export interface ServiceClientOptions {
  /** The service's key. */
  readonly key: string;
  readonly client: UnaryClient;
  readonly clock: Clock;
  readonly observer: GlobalLimitObserver;
  /** As `GlobalLimiterOptions.onFault`. */
  readonly onFault?: ((error: unknown) => void) | undefined;
  /** The service has been away, and has answered a call. */
  readonly onBack?: () => void;
}

/** What an operator sees of a service. */
export interface ServiceState {
  readonly service: string;
  readonly breaker: "closed" | "open";
  /** When the breaker took this state, in ms since the epoch. */
  readonly sinceMs: number;
  /** Why it is open; absent while it is closed. */
  readonly cause?: string;
  /** How the last call went that failed, also of a service that is back; absent where none has. */
  readonly lastError?: { readonly message: string; readonly atMs: number };
  /** Calls that got no decision since the last that did, whatever the reason; the breaker may be closed all the same. */
  readonly failuresInARow: number;
  /** When the service last decided, or said that it is well, in ms since the epoch; absent before. */
  readonly answeredMs?: number;
  /** Charges that wait for the service. */
  readonly chargesBuffered: number;
  /** Refusals that are remembered, so that whoever hammers an exhausted limit costs no call. */
  readonly refusalsRemembered: number;
  /** Limits that it has reported, for the time when it is away. */
  readonly limitsLearned: number;
}

/** Refusals that are remembered at once. */
const maxRefusals = 10_000;
/** So many requests in a row for which the service had no room (RESOURCE_EXHAUSTED), for so long, are an overload. */
const exhaustionsOfOverload = 20;
const overloadMs = 1_000;
/** Off the path of responses there is time; a service that does not answer within it is away. */
const chargeTimeoutMs = 5_000;

/** grpc.health.v1, which envoyproxy/ratelimit and ours answer, each for all that it does. */
const healthPath = "/grpc.health.v1.Health/Check";
/** HealthCheckRequest with `service` left empty: the server as a whole. */
const noService = Buffer.alloc(0);
const healthTimeoutMs = 2_000;
/** HealthCheckResponse of SERVING: field 1, a varint, is 1. */
const servingMessage = Buffer.from([8, 1]);

/** Of a service that is away or ill; all other causes say that it is there and does not do what it is asked. */
const awayCauses: ReadonlySet<FailureCause> = new Set(["timeout", "unavailable", "failed"]);

const breakerIsOpen = callFailure("unavailable", "the breaker is open");

export class ServiceClient {
  readonly #options: ServiceClientOptions;
  readonly #breaker: Breaker;
  /** What the service has said of limits, for when it cannot be asked. */
  readonly learned = new LearnedLimits();
  /** Refusals of the service that still last, by the descriptors that they are about. */
  readonly refusals = new BoundedCache<Refusal>(maxRefusals);
  readonly #charges: ChargeDelivery;
  /** A charge has been the probe since the breaker changed. */
  #hasProbedByCharge = false;
  #isMisbehaving = false;
  #failuresInARow = 0;
  /** Requests in a row for which the service had no room, and since when. */
  #exhaustions = { count: 0, sinceMs: 0 };
  #answeredMs: number | undefined;
  #cause = "";
  #sinceMs: number;
  #lastError: ServiceState["lastError"];

  constructor(options: ServiceClientOptions) {
    const { key, clock, observer } = options;
    this.#options = options;
    this.#sinceMs = clock.nowMs();
    this.#breaker = new Breaker({
      clock,
      onChange: (isOpen, cause) => {
        this.#cause = cause;
        this.#sinceMs = clock.nowMs();
        this.#hasProbedByCharge = false;
        observer.breakerChanged(key, isOpen, cause);
        if (!isOpen) this.#noteWell();
        this.#charges.askedChanged();
      },
      onBack: () => options.onBack?.(),
      onProbeWanted: (isOverdue) => this.#probe(isOverdue),
    });
    this.#charges = new ChargeDelivery({
      clock,
      isAsked: () => !this.#breaker.isOpen,
      send: ({ path, message }, done) => {
        const heard = (answer: Answer): void => done(answer.kind === "failed" ? answer : undefined);
        this.#call(path, message, chargeTimeoutMs, heard);
      },
      onBuffered: (count) => observer.chargesBuffered(key, count),
      onDropped: (reason) => observer.chargeDropped(key, reason),
    });
  }

  /** The service is there from now on. */
  update(endpoints: Endpoints): void {
    this.#options.client.update(endpoints);
  }

  /**
   * Asks for a decision. `done` hears of it once, at the latest after `timeoutMs`; at once while the breaker is open. In
   * that case the question may still go out, for the service to count and for the breaker to learn from.
   */
  ask(method: Method, call: RateLimitCall, timeoutMs: number, done: (answer: Answer) => void): void {
    if (!this.#breaker.isOpenFor(timeoutMs)) {
      this.#question(methods[method], encodeRateLimitCall(call), timeoutMs, done);
      return;
    }
    done(breakerIsOpen);
    if (!this.#breaker.takeProbe()) return;
    const probeMs = this.#breaker.probeTimeoutMs(timeoutMs);
    this.#question(methods[method], encodeRateLimitCall(call), probeMs, () => undefined);
  }

  #question(path: string, message: Buffer, timeoutMs: number, done: (answer: Answer) => void): void {
    this.#call(path, message, timeoutMs, done, true);
  }

  /** Counts requests for which the service has no room. Charges have pauses of their own, and may be too large. */
  #noteRoom(answer: Answer): void {
    const hasRoom = answer.kind === "answered" || answer.cause !== "exhausted";
    if (hasRoom) this.#exhaustions.count = 0;
    else if (this.#exhaustions.count++ === 0) this.#exhaustions.sinceMs = this.#nowMs();
  }

  get #isOverloaded(): boolean {
    const { count, sinceMs } = this.#exhaustions;
    return count >= exhaustionsOfOverload && this.#nowMs() - sinceMs >= overloadMs;
  }

  /** Has the service count what has been used already; kept and sent later while it is away. */
  charge(method: Method, call: RateLimitCall): void {
    this.#charges.deliver({ path: methods[method], message: encodeRateLimitCall(call), madeMs: this.#nowMs() });
  }

  /** The service answers another worker again, so there is no reason to wait for a probe of one's own. */
  answeredElsewhere(): void {
    this.#breaker.answeredElsewhere();
  }

  state(): ServiceState {
    const { isOpen } = this.#breaker;
    return {
      service: this.#options.key,
      breaker: isOpen ? "open" : "closed",
      sinceMs: this.#sinceMs,
      ...(isOpen && { cause: this.#cause }),
      ...(this.#lastError !== undefined && { lastError: this.#lastError }),
      failuresInARow: this.#failuresInARow,
      ...(this.#answeredMs !== undefined && { answeredMs: this.#answeredMs }),
      chargesBuffered: this.#charges.size,
      refusalsRemembered: this.refusals.size,
      limitsLearned: this.learned.size,
    };
  }

  /** Resolves when no charge is under way and none can be sent; charges that wait for an absent service are given up. */
  idle(): Promise<void> {
    return this.#charges.idle();
  }

  /** Asks and sends nothing any more. */
  close(): void {
    const { client, observer, key } = this.#options;
    this.#breaker.close();
    this.#charges.close();
    client.close();
    observer.retired(key);
  }

  /**
   * Else the next request that asks makes the probe; where none comes, the service is asked how it is. After the first
   * charge requests go first, because a charge may fail for what it is.
   */
  #probe(isOverdue: boolean): void {
    if (this.#charges.size > 0) {
      if (this.#hasProbedByCharge && !isOverdue) return;
      this.#hasProbedByCharge = true;
      if (this.#breaker.takeProbe() && !this.#charges.probe()) this.#breaker.returnProbe();
    } else if (isOverdue && this.#breaker.takeProbe()) this.#askHealth();
  }

  #askHealth(): void {
    this.#options.client.call(healthPath, noService, healthTimeoutMs, (outcome) => {
      const fault = faultOf(outcome);
      if (fault !== undefined) this.#lastError = { message: fault, atMs: this.#options.clock.nowMs() };
      this.#breaker.heardOfHealth(fault);
    });
  }

  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }

  /** @param isQuestion a request waits for it, or would if the breaker were closed. */
  #call(path: string, message: Buffer, timeoutMs: number, done: (answer: Answer) => void, isQuestion = false): void {
    const startMs = this.#nowMs();
    this.#options.client.call(path, message, timeoutMs, (outcome) => {
      const answer = readAnswer(outcome);
      try {
        if (isQuestion) this.#noteRoom(answer);
        this.#learn(answer, startMs, timeoutMs, isQuestion);
      } catch (error) {
        const { onFault } = this.#options;
        if (onFault === undefined) throw error;
        onFault(error);
      }
      // Whoever asked waits for this alone.
      done(answer);
    });
  }

  #learn(answer: Answer, startMs: number, timeoutMs: number, isQuestion: boolean): void {
    const { key, observer, clock } = this.#options;
    const durationMs = this.#nowMs() - startMs;
    if (answer.kind === "answered") {
      this.#isMisbehaving = false;
      this.#noteWell();
      observer.called(key, answer.answer.overallCode === "OVER_LIMIT" ? "overLimit" : "ok", durationMs);
      this.#breaker.succeeded(durationMs);
      return;
    }
    observer.called(key, answer.cause, durationMs);
    this.#failuresInARow++;
    this.#lastError = { message: answer.message, atMs: clock.nowMs() };
    if (!awayCauses.has(answer.cause) && !this.#isMisbehaving) {
      this.#isMisbehaving = true;
      observer.misbehaved(key, answer.message);
    }
    if (answer.cause === "exhausted" && this.#isOverloaded) this.#breaker.failed(answer.message);
    // A refusal of this one call says that the service is there for others.
    else if (isAboutCall(answer)) this.#breaker.succeeded(durationMs);
    // A charge at which the service fails may be alone with that, and must not close the service to requests.
    else if (answer.cause === "failed" && !isQuestion && !this.#breaker.isOpen) return;
    else this.#breaker.failed(answer.message, answer.cause === "timeout" ? timeoutMs : undefined);
  }

  #noteWell(): void {
    this.#failuresInARow = 0;
    this.#answeredMs = this.#options.clock.nowMs();
  }
}

function isAboutCall({ cause }: CallFailure): boolean {
  return cause === "rejected" || cause === "exhausted";
}

/** What is wrong with a service by its health; undefined where it is well, or there and without such a method. */
function faultOf(outcome: CallOutcome): string | undefined {
  if (outcome.kind === "failed") return isAboutCall(outcome) ? undefined : outcome.message;
  return outcome.message.equals(servingMessage) ? undefined : "the service says that it is not serving";
}

function readAnswer(outcome: CallOutcome): Answer {
  if (outcome.kind === "failed") return outcome;
  try {
    const answer = decodeRateLimitAnswer(outcome.message);
    if (answer.overallCode === "UNKNOWN")
      return callFailure("unknown", "the service answered with overall code UNKNOWN");
    return { kind: "answered", answer };
  } catch (error) {
    const message = error instanceof WireError ? error.message : String(error);
    return callFailure("garbage", `an answer that cannot be read: ${message}`);
  }
}
