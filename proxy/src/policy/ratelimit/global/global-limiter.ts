/**
 * The global limits of a worker: its services, with connections, circuit breakers and charges that outlive snapshots,
 * and the sets of limits of each rule of the current snapshot.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Expression } from "../../../cel/expression.ts";
import type { RequestView } from "../../../cel/request-view.ts";
import type { GlobalDecision, GlobalLimit } from "../../../ir/global-limit.ts";
import type { RefundCause } from "../../../ir/limit.ts";
import type { Backend, BackendKey } from "../../../ir/snapshot.ts";
import type { TokenUsage } from "../../../ir/usage.ts";
import type { CounterTable } from "../counter-table.ts";
import { viewWithUsage } from "../cost.ts";
import type { Decision, Reservation } from "../decision.ts";
import type { ShownLimit } from "../shown-limit.ts";
import type { LimitView } from "./service-headers.ts";
import { BoundedCache } from "./bounded-cache.ts";
import {
  type CachedDenial,
  type GateServices,
  LimitGate,
  nearest,
  type GateAllowed,
  type GateResult,
  viewOfState,
} from "./limit-gate.ts";
import { type LearnedEntry, LearnedLimits, type LearnedReport } from "./learned-limits.ts";
import type { DescribedRequest } from "./descriptors.ts";
import type { CallWatcher } from "./call-watcher.ts";
import type { GlobalLimitObserver } from "./observer.ts";
import { ServiceClient, type ServiceState } from "./service-client.ts";
import type { Endpoints, UnaryClient } from "./grpc/unary-client.ts";

/** The services of a worker that all global limits share. */
export interface GlobalLimiterOptions {
  /** Times calls, circuit breakers and charges. */
  readonly clock: Clock;
  /** Opens a client for the service with that key. The limiter closes it. */
  readonly openClient: (service: string) => UnaryClient;
  /** The worker's counters: fallback counters are exact over all workers. */
  readonly counters: CounterTable;
  /** Receives the events of services, for metrics and the log. */
  readonly observer: GlobalLimitObserver;
  /** Called when the gateway fails internally on a response; the call continues. Absent: the error ends the thread. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** Notifies the other workers, whose `take` gets it; absent: there are none. */
  readonly notifyOthers?: ((news: ServiceNews) => void) | undefined;
}

/** What a worker has found out about rate limit services, for the others. */
export type ServiceNews =
  /** A service that was unavailable responds again. */
  | { readonly kind: "recovered"; readonly service: string }
  /** Services have reported limits. */
  | { readonly kind: "learned"; readonly reports: readonly LearnedReport[] };

/** Limits that were learned within this time are sent together. */
const sendingMs = 20;

/**
 * The time that a service is kept after the last limit that names it is gone, in ms: for requests in progress, and for
 * an edit that names it again.
 */
const retirementMs = 60_000;

/**
 * What all services of a worker may have in the cache of denials. A service chooses the sizes of its responses, and a
 * client the number of its denials. One that is not cached costs a call. The namespaces of the policies share it.
 */
const denialBounds = { maxItems: 10_000, maxBytes: 16 * 1024 * 1024 } as const;

interface Retired {
  readonly service: ServiceClient;
  readonly timer: Timer;
}

/**
 * The rate limit services of one worker. `prepare` and `compile` follow each snapshot; `drain` and `close` end it. A
 * service that no limit names is kept for one minute.
 */
export class GlobalLimiter {
  readonly #options: GlobalLimiterOptions;
  readonly #gateServices: GateServices;
  readonly #denials = new BoundedCache<CachedDenial>(denialBounds);
  readonly #learned: LearnedLimits;
  /** The limits of the snapshot by id. */
  #limits: ReadonlyMap<string, GlobalLimit> = new Map();
  #unsent: LearnedReport[] = [];
  #sending: Timer | undefined;
  readonly #services = new Map<string, ServiceClient>();
  readonly #retired = new Map<string, Retired>();
  /** By limit of the snapshot: all rules of a policy share one gate. */
  #gates = new WeakMap<GlobalLimit, LimitGate>();

  constructor(options: GlobalLimiterOptions) {
    const { clock, counters, notifyOthers } = options;
    this.#options = options;
    this.#learned = new LearnedLimits(notifyOthers && ((report) => this.#sendLearned(report)));
    this.#gateServices = { clock, counters, denials: this.#denials, learned: this.#learned };
  }

  /**
   * Prepares the limits of a snapshot: connects to new services and retires those that no limit names.
   *
   * @param backendOf returns a backend of the snapshot.
   */
  prepare(limits: readonly GlobalLimit[], backendOf: (key: BackendKey) => Backend | undefined): void {
    const desired = new Set(limits.map(({ service }) => service));
    for (const [key, service] of this.#services) {
      if (desired.has(key)) continue;
      this.#services.delete(key);
      this.#retire(key, service);
    }
    for (const key of desired) this.#open(key, backendOf(key) ?? noEndpoints);
    this.#gates = new WeakMap();
    this.#limits = new Map(limits.map((limit) => [limit.id, limit]));
  }

  /** Compiles the limits of one rule, which must be among those prepared; undefined for none. */
  compile(limits: readonly GlobalLimit[] = []): GlobalLimitSet | undefined {
    if (limits.length === 0) return undefined;
    return new GlobalLimitSet(
      limits.map((limit) => this.#gateOf(limit)),
      this.#options.clock,
    );
  }

  /** Returns at most `max` of the limits that services have reported, for operators. */
  learned(max: number): readonly LearnedEntry[] {
    return [...this.#learnedNow()].filter(({ global }) => this.#services.has(global.service)).slice(0, max);
  }

  /** Returns the state of every service in use, for operators. */
  state(): readonly ServiceState[] {
    const cached = Map.groupBy(this.#denials.values(this.#options.clock.monotonicMs()), ({ service }) => service);
    const learned = Map.groupBy(this.#learnedNow(), ({ global }) => global.service);
    return Array.from(this.#services, ([key, service]) =>
      service.state({ denialsCached: cached.get(key)?.length ?? 0, limitsLearned: learned.get(key)?.length ?? 0 }),
    );
  }

  #learnedNow(): Iterable<LearnedEntry> {
    return this.#learned.list(this.#options.clock.monotonicMs());
  }

  /** Takes what another worker has found out. */
  take(news: ServiceNews): void {
    if (news.kind === "recovered") {
      this.#services.get(news.service)?.succeededInOtherWorker();
      return;
    }
    const nowMs = this.#options.clock.monotonicMs();
    for (const report of news.reports) {
      const limit = this.#limits.get(report.limit);
      // Snapshots reach workers at slightly different times.
      if (limit?.service === report.service) this.#learned.add(limit, report, nowMs);
    }
  }

  #sendLearned(report: LearnedReport): void {
    this.#unsent.push(report);
    this.#sending ??= this.#options.clock.setTimer(sendingMs, () => {
      this.#sending = undefined;
      this.#options.notifyOthers?.({ kind: "learned", reports: this.#unsent.splice(0) });
    });
  }

  /** Resolves when the charges in progress have arrived. Charges for an unavailable service are dropped. */
  async drain(): Promise<void> {
    await Promise.all(this.#all().map((service) => service.idle()));
  }

  /** Closes every connection now. */
  close(): void {
    this.#sending?.cancel();
    for (const { timer } of this.#retired.values()) timer.cancel();
    for (const service of this.#all()) service.close();
    this.#services.clear();
    this.#retired.clear();
  }

  #all(): readonly ServiceClient[] {
    return [...this.#services.values(), ...Array.from(this.#retired.values(), ({ service }) => service)];
  }

  #open(key: string, endpoints: Endpoints): ServiceClient {
    let service = this.#services.get(key) ?? this.#restore(key);
    if (service === undefined) {
      const { clock, openClient, observer, notifyOthers, onError } = this.#options;
      const onServiceBack = (): void => notifyOthers?.({ kind: "recovered", service: key });
      service = new ServiceClient({
        key,
        client: openClient(key),
        clock,
        observer,
        onRecovered: onServiceBack,
        onError,
      });
      this.#services.set(key, service);
    }
    service.update(endpoints);
    return service;
  }

  #retire(key: string, service: ServiceClient): void {
    const timer = this.#options.clock.setTimer(retirementMs, () => {
      this.#retired.delete(key);
      this.#learned.forget(key);
      service.close();
    });
    this.#retired.set(key, { service, timer });
  }

  /** Takes a service out of retirement, with all its state. */
  #restore(key: string): ServiceClient | undefined {
    const retired = this.#retired.get(key);
    if (retired === undefined) return undefined;
    retired.timer.cancel();
    this.#retired.delete(key);
    this.#services.set(key, retired.service);
    return retired.service;
  }

  #gateOf(limit: GlobalLimit): LimitGate {
    const existing = this.#gates.get(limit);
    if (existing !== undefined) return existing;
    const service = this.#services.get(limit.service) ?? this.#open(limit.service, noEndpoints);
    const gate = new LimitGate(limit, service, this.#gateServices);
    this.#gates.set(limit, gate);
    return gate;
  }
}

/** The endpoints of a service that does not exist. */
const noEndpoints: Endpoints = { endpoints: [] };

/** The decision of the global limits on one request. */
export type GlobalLimitsDecision = Decision<GlobalReservation, GlobalReport>;

/** What each global limit decided. */
export interface GlobalReport {
  /** One item per limit; empty if no service was called. */
  readonly decisions: readonly GlobalDecision[];
  /**
   * Of a denied request the limits that allowed it, for header families that list limits; undefined if none of them is
   * sent.
   */
  readonly listed?: readonly ShownLimit[] | undefined;
}

const nothingDecided: GlobalReport = { decisions: [] };
const nothingDescribed: DescribedRequest = { descriptors: [], notApplied: [] };

/** The compiled global limits of one rule. */
export class GlobalLimitSet {
  readonly #gates: readonly LimitGate[];
  readonly #clock: Clock;
  /** All limits, in the order of the decisions. */
  readonly limits: readonly GlobalLimit[];
  /** An expression reads the body of the request. */
  readonly needsBody: boolean;
  /** Whether responses must be parsed for their token usage. */
  readonly countsTokens: boolean;

  constructor(gates: readonly LimitGate[], clock: Clock) {
    this.#gates = gates;
    this.#clock = clock;
    this.limits = gates.map(({ limit }) => limit);
    this.needsBody = gates.some((gate) => gate.needsBody);
    this.countsTokens = gates.some((gate) => gate.countsTokens);
  }

  /** As `LimitSet.reserves`, of all limits and their fallbacks. */
  get reserves(): boolean {
    return this.#gates.some((gate) => gate.reserves);
  }

  /** As `LimitSet.requiresPrice`, of the fallbacks. */
  get requiresPrice(): boolean {
    return this.#gates.some((gate) => gate.requiresPrice);
  }

  /** The expressions of all limits. */
  get expressions(): readonly Expression[] {
    return this.#gates.flatMap((gate) => gate.expressions);
  }

  /**
   * Decides one request. `done` is called once, possibly within this call, at the latest after the longest timeout of
   * the limits. All limits are evaluated at the same time.
   *
   * @param watcher Of a request that is traced, or whose spans are exported.
   */
  decide(view: RequestView, done: (decision: GlobalLimitsDecision) => void, watcher?: CallWatcher): void {
    // A request whose cost could be any number must not be allowed.
    const costly = this.#gates.find((gate) => gate.costsTooMuch(view));
    if (costly !== undefined) {
      done({ kind: "unavailable", policy: costly.limit.policy, cause: "costTooCostly", report: nothingDecided });
      return;
    }
    const described: DescribedRequest[] = [];
    // Describes the request for all limits first, so that no service counts a request that is rejected here.
    for (const gate of this.#gates) {
      const ofGate = gate.describe(view);
      if (ofGate === "tooLong") {
        done({ kind: "unavailable", policy: gate.limit.policy, cause: "valueTooLong", report: nothingDecided });
        return;
      }
      described.push(ofGate);
    }
    const results: GateResult[] = [];
    let pending = this.#gates.length;
    for (let at = 0; at < this.#gates.length; at++) {
      const onResult = (result: GateResult): void => {
        results[at] = result;
        pending--;
        if (pending === 0) done(this.#combine(view, results, this.#clock.monotonicMs(), watcher));
      };
      this.#gates[at]?.decide(view, described[at] ?? nothingDescribed, onResult, watcher);
    }
  }

  #combine(
    view: RequestView,
    results: readonly GateResult[],
    nowMs: number,
    watcher: CallWatcher | undefined,
  ): GlobalLimitsDecision {
    const decisions: GlobalDecision[] = [];
    const reservations: GateReservation[] = [];
    let denied: Exclude<GateResult, GateAllowed> | undefined;
    for (let at = 0; at < results.length; at++) {
      const result = results[at];
      const gate = this.#gates[at];
      if (result === undefined || gate === undefined) continue;
      const isEnforced = gate.limit.mode === "Enforce";
      const isAllowed = result.kind === "allowed";
      const outcome = isAllowed ? "allowed" : isEnforced ? "denied" : "shadowDenied";
      decisions.push({ limit: gate.limit, outcome, by: result.by, notApplied: result.notApplied });
      if (isAllowed) reservations.push({ gate, result });
      // A denial takes precedence over an unavailable service.
      else if (isEnforced && denied?.kind !== "global") denied = result;
    }
    const reservation = new GlobalReservation(reservations, view, watcher);
    const report = { decisions };
    if (denied === undefined) return { kind: "allowed", reservation, report };
    reservation.refund(nowMs);
    return denied.kind === "global"
      ? { kind: "denied", by: denied, report: { decisions, listed: reservation.view?.listed } }
      : {
          kind: "unavailable",
          policy: denied.limit.policy,
          cause: denied.isUnpriced === true ? "unpriced" : denied,
          report,
        };
  }
}

interface GateReservation {
  readonly gate: LimitGate;
  readonly result: GateAllowed;
}

/** The reservation of an allowed request: headers for both sides, and the budgets that its response is charged to. */
export class GlobalReservation implements Reservation {
  readonly #reservations: readonly GateReservation[];
  readonly #view: RequestView;
  readonly #watcher: CallWatcher | undefined;
  #limitView: LimitView | undefined;

  /** @param watcher observes its calls. */
  constructor(reservations: readonly GateReservation[], view: RequestView, watcher: CallWatcher | undefined) {
    this.#reservations = reservations;
    this.#view = view;
    this.#watcher = watcher;
    this.#limitView = this.#nearest(({ view }) => view);
  }

  /** The headers for the client; undefined if nothing is known. */
  get view(): LimitView | undefined {
    return this.#limitView;
  }

  /** Limits in shadow mode are not shown. */
  #nearest(viewOf: (result: GateAllowed) => LimitView | undefined): LimitView | undefined {
    return nearest(
      this.#reservations.flatMap(({ gate, result }) => {
        const view = viewOf(result);
        return gate.limit.mode === "Enforce" && view !== undefined ? view : [];
      }),
    );
  }

  /** The fields that services add for the backend, as alternating names in lower case and values. */
  get backendHeaders(): readonly string[] {
    return this.#reservations.flatMap(({ result }) => result.backendHeaders);
  }

  /** Charges the tokens of the response. The calls to the services are not awaited. */
  charge(usage: TokenUsage, nowMs: number): void {
    if (this.#reservations.length === 0) return;
    const view = viewWithUsage(this.#view, usage);
    for (const { gate, result } of this.#reservations) gate.charge(result, view, usage, nowMs, this.#watcher);
  }

  /** As `Reservation.holdsPlace`. */
  get holdsPlace(): boolean {
    return this.#reservations.some(
      ({ result: { reservation, holds } }) => reservation?.holdsPlace === true || holds?.isEmpty === false,
    );
  }

  /** As `Reservation.release`. */
  release(nowMs: number): void {
    for (const { gate, result } of this.#reservations) gate.release(result, nowMs, this.#watcher);
  }

  /**
   * Asks whether the token budgets of enforced limits have tokens left. `done` is called once, at the latest after the
   * longest timeout of the limits.
   */
  recheck(nowMs: number, done: (hasLeft: boolean) => void): void {
    const enforced = this.#reservations.filter(({ gate }) => gate.limit.mode === "Enforce");
    let pending = enforced.length;
    let isDone = pending === 0;
    if (isDone) done(true);
    for (const { gate, result } of enforced) {
      const onResult = (hasLeft: boolean): void => {
        pending--;
        if (isDone || (hasLeft && pending > 0)) return;
        isDone = true;
        done(hasLeft);
      };
      gate.recheck(result, nowMs, onResult, this.#watcher);
    }
  }

  /**
   * Refunds the units in in-process counters. Services keep those of requests, and are refunded what a request holds
   * that was not allowed after all.
   */
  refund(nowMs: number, cause?: RefundCause): void {
    if (cause === undefined) this.release(nowMs);
    this.#limitView = this.#nearest(({ reservation, view }) => {
      if (reservation === undefined) return view;
      const { state, listed } = reservation.refund(nowMs, cause);
      return viewOfState(state, listed);
    });
  }
}
