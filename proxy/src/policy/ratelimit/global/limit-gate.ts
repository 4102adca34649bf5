/**
 * Decides requests under one global limit: by a cached denial, by the service, or by the failure mode if the service is
 * unavailable.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Expression } from "../../../cel/expression.ts";
import type { RequestView } from "../../../cel/request-view.ts";
import type { DescriptorNotApplied, GlobalDecider, GlobalDescriptor, GlobalLimit } from "../../../ir/global-limit.ts";
import type { TokenUsage } from "../../../ir/usage.ts";
import type { CounterTable } from "../counter-table.ts";
import type { CounterReservation } from "../counter-reservation.ts";
import type { GlobalDenial, ServiceUnavailable } from "../denial.ts";
import { limitHeaders } from "../headers.ts";
import { type LocalDecision, compileLimits, type LimitSet } from "../local-limiter.ts";
import { listsLimits, sendsFamily, type ShownLimit, shownStatuses } from "../shown-limit.ts";
import type { LimitState } from "../window.ts";
import type { BoundedCache } from "./bounded-cache.ts";
import { backendHeaders, minDenialMs, type LimitView, type ServiceDenial, viewOfAllowed } from "./service-headers.ts";
import { chargeCallsOf, type PlannedCall, decisionCallsOf, refundCallOf, type TokenCharge } from "./calls.ts";
import {
  type CompiledDescriptor,
  chargeOf,
  compileDescriptor,
  costsTooMuch,
  type DescribedRequest,
  describeRequest,
  keyOf,
  namespaceOf,
  overrideKeyOf,
  type RequestDescriptor,
} from "./descriptors.ts";
import { areValuesTooLong } from "./call-size.ts";
import type { LearnedLimits } from "./learned-limits.ts";
import type { RateLimitRequest, RateLimitResponse } from "./messages.ts";
import type { CallWatcher } from "./call-watcher.ts";
import type { ObserveCall, ServiceOutcome } from "./service-call.ts";
import type { Method, ServiceClient } from "./service-client.ts";
import { holdsOf, type ServiceHold, ServiceHolds } from "./service-holds.ts";

/** Services that the gates of a worker share. */
export interface GateServices {
  /** The time of decisions and charges. */
  readonly clock: Clock;
  /** The counters of fallbacks and learned limits, shared by all workers. */
  readonly counters: CounterTable;
  /** Denials of all services, by service and descriptors. */
  readonly denials: BoundedCache<CachedDenial>;
  /** Limits that services have reported, for when they are unavailable. */
  readonly learned: LearnedLimits;
}

/** A denial that later requests with the same descriptors get without a call. */
export interface CachedDenial {
  /** The key of the service. */
  readonly service: string;
  readonly denial: ServiceDenial;
}

/** The result of one request at one limit. */
export type GateResult = GateAllowed | GlobalDenial | ServiceUnavailable;

/** The limit allows the request; `by` says who decided. The descriptors include the token budgets to charge. */
export interface GateAllowed extends DescribedRequest {
  readonly kind: "allowed";
  readonly by: GlobalDecider;
  /** For response headers; undefined if nothing is known. */
  readonly view: LimitView | undefined;
  /** Fields for the backend, as alternating names and values. */
  readonly backendHeaders: readonly string[];
  /** The reservation in the in-process counters that decided instead of the service. */
  readonly reservation: CounterReservation | undefined;
  /** What the request holds at the service; undefined if it holds nothing. */
  readonly holds?: ServiceHolds | undefined;
}

/** A denial is cached until its reset, but no longer than this: the limit may be raised in the meantime. */
const maxCacheMs = 60_000;

const none: readonly never[] = [];

/** One global limit of the current snapshot, for all rules that it applies to. */
export class LimitGate {
  readonly limit: GlobalLimit;
  readonly needsBody: boolean;
  /** Whether responses must be parsed for their token usage. */
  readonly countsTokens: boolean;
  readonly #services: GateServices;
  readonly #client: ServiceClient;
  readonly #descriptors: readonly CompiledDescriptor[];
  readonly #fallback: LimitSet;

  constructor(limit: GlobalLimit, client: ServiceClient, services: GateServices) {
    this.limit = limit;
    this.#client = client;
    this.#services = services;
    this.#descriptors = limit.descriptors.map((descriptor) => compileDescriptor(descriptor, limit.target));
    this.#fallback = compileLimits(limit.fallback, services.counters, "fallback");
    this.needsBody = this.#fallback.needsBody || this.#descriptors.some(({ needsBody }) => needsBody);
    this.countsTokens = this.#fallback.countsTokens || limit.descriptors.some(({ counts }) => counts === "tokens");
  }

  /** As `LimitSet.reserves`, of its descriptors and its fallback. */
  get reserves(): boolean {
    return this.#reserves || this.#fallback.reserves;
  }

  /** Whether a descriptor reserves estimates at the service. */
  get #reserves(): boolean {
    return this.limit.descriptors.some(({ reserves }) => reserves === true);
  }

  /** As `LimitSet.requiresPrice`, of its fallback. */
  get requiresPrice(): boolean {
    return this.#fallback.requiresPrice;
  }

  /** The expressions of its descriptors and of its fallback. */
  get expressions(): readonly Expression[] {
    return [...this.#descriptors.flatMap(({ expressions }) => expressions), ...this.#fallback.expressions];
  }

  /** Returns whether the limit is enforced and the cost or override of the request takes too much work to compute. */
  costsTooMuch(view: RequestView): boolean {
    if (this.limit.mode === "Shadow") return false;
    return this.#descriptors.some((descriptor) => costsTooMuch(descriptor, view)) || this.#fallback.costsTooMuch(view);
  }

  /**
   * Returns the descriptors of a request; `tooLong` if its values are longer than a call may have. A limit in shadow
   * mode does not apply to such a request, since it denies none.
   */
  describe(view: RequestView): DescribedRequest | "tooLong" {
    const descriptors: RequestDescriptor[] = [];
    let notApplied: readonly DescriptorNotApplied[] = none;
    for (const compiled of this.#descriptors) {
      const described = describeRequest(compiled, view);
      if (typeof described !== "string") descriptors.push(described);
      else notApplied = [...notApplied, { descriptor: compiled.descriptor, because: described }];
    }
    if (!areValuesTooLong(descriptors)) return { descriptors, notApplied };
    return this.limit.mode === "Enforce" ? "tooLong" : { descriptors: none, notApplied };
  }

  /**
   * Decides one request. `done` is called once, possibly within this call, at the latest when the limit's timeout is
   * over.
   *
   * @param described Of `describe`.
   * @param watcher Of a request that is traced, or whose spans are exported.
   */
  decide(
    view: RequestView,
    described: DescribedRequest,
    done: (result: GateResult) => void,
    watcher?: CallWatcher,
  ): void {
    if (described.descriptors.length === 0) {
      done(allowed("none", described));
      return;
    }
    const cached = this.#cachedDenial(described);
    if (cached !== undefined) done(cached);
    else this.#callService(view, described, done, watcher);
  }

  /**
   * Charges the usage of a response to the token budgets of an allowed request. It replaces what the request holds at
   * the service, which gets the difference.
   *
   * @param watcher as for `decide`.
   */
  charge(allowed: GateAllowed, view: RequestView, usage: TokenUsage, nowMs: number, watcher?: CallWatcher): void {
    const { by, descriptors, reservation, holds } = allowed;
    if (by !== "learned") reservation?.charge(usage, nowMs);
    const charges: TokenCharge[] = [];
    const refunds: ServiceHold[] = [];
    for (const descriptor of descriptors) {
      const { counts, index } = descriptor.compiled.descriptor;
      if (counts !== "tokens") continue;
      const used = chargeOf(descriptor.compiled, view, usage.total);
      const hold = holds?.take(descriptor);
      const hits = used - (hold?.hits ?? 0);
      if (hits > 0) charges.push({ descriptor, hits });
      else if (hits < 0 && hold !== undefined) refunds.push({ ...hold, hits: -hits });
      // The in-process counters are charged as the service would be.
      if (by === "learned" && used > 0) reservation?.chargeEntry(index, used, nowMs);
    }
    this.#refund(refunds, watcher);
    if (charges.length === 0) return;
    for (const { method, call } of chargeCallsOf(this.limit, charges, by === "service")) {
      this.#client.charge(method, call, this.#observer(watcher, method, call));
    }
  }

  /** Refunds what a request still holds at the service and in in-process counters. */
  release({ holds, reservation }: GateAllowed, nowMs: number, watcher?: CallWatcher): void {
    reservation?.release(nowMs);
    if (holds !== undefined) this.#refund(holds.takeAll(), watcher);
  }

  /** A service that refunds nothing keeps what it has counted until its window ends. */
  #refund(holds: readonly ServiceHold[], watcher?: CallWatcher): void {
    for (const [heldAtMs, group] of Map.groupBy(holds, (hold) => hold.heldAtMs)) {
      if (heldAtMs === undefined) continue;
      const call = refundCallOf(this.limit, group, heldAtMs);
      this.#client.refund(call, this.#observer(watcher, "shouldRateLimit", call));
    }
  }

  #observer(watcher: CallWatcher | undefined, method: Method, call: RateLimitRequest): ObserveCall | undefined {
    return watcher && (() => watcher.laterCallStarted(this.limit, method, call));
  }

  /**
   * Asks whether the token budgets of an allowed request have tokens left: its in-process counters, and the service by
   * a call as for a new request. Without a response of the service they have.
   */
  recheck(
    { descriptors, reservation }: GateAllowed,
    nowMs: number,
    done: (hasLeft: boolean) => void,
    watcher?: CallWatcher,
  ): void {
    const tokens = descriptors
      .filter(({ compiled }) => compiled.descriptor.counts === "tokens")
      // Only looks: the estimate is that of the first response.
      .map((descriptor) => ({ ...descriptor, hits: 0 }));
    const plans = tokens.length === 0 ? [] : decisionCallsOf(this.limit, tokens);
    const isOver =
      reservation?.hasTokensLeft(nowMs) === false ||
      this.#cachedDenial({ descriptors: tokens, notApplied: [] }) !== undefined;
    let pending = isOver ? 0 : plans.length;
    let isDone = pending === 0;
    if (isDone) done(!isOver);
    for (const { method, call } of isOver ? [] : plans) {
      const observed = watcher?.laterCallStarted(this.limit, method, call);
      const onResponse = (outcome: ServiceOutcome): void => {
        observed?.ended(outcome);
        pending--;
        const isDenied = outcome.kind === "responded" && outcome.response.overallCode === "OVER_LIMIT";
        if (isDone || (!isDenied && pending > 0)) return;
        isDone = true;
        done(!isDenied);
      };
      this.#client.decide(method, call, this.limit.timeoutMs, onResponse, observed?.fields);
    }
  }

  #callService(
    view: RequestView,
    described: DescribedRequest,
    done: (result: GateResult) => void,
    watcher: CallWatcher | undefined,
  ): void {
    const plans = decisionCallsOf(this.limit, described.descriptors);
    const [plan] = plans;
    if (plan === undefined) {
      done(allowed("none", described));
    } else if (plans.length === 1 && watcher === undefined) {
      this.#client.decide(plan.method, plan.call, this.limit.timeoutMs, (response) => {
        done(this.#evaluate(view, described, plans, [response]));
      });
    } else {
      this.#callAll(view, described, plans, done, watcher);
    }
  }

  #callAll(
    view: RequestView,
    described: DescribedRequest,
    plans: readonly PlannedCall[],
    done: (result: GateResult) => void,
    watcher: CallWatcher | undefined,
  ): void {
    const { clock } = this.#services;
    const startMs = clock.monotonicMs();
    const responses: ServiceOutcome[] = [];
    let pending = plans.length;
    plans.forEach((plan, at) => {
      const fields = watcher?.callStarted(this.limit, plan);
      const onResponse = (response: ServiceOutcome): void => {
        watcher?.callEnded(this.limit, plan, response, clock.monotonicMs() - startMs);
        responses[at] = response;
        pending--;
        if (pending === 0) done(this.#evaluate(view, described, plans, responses, watcher));
      };
      this.#client.decide(plan.method, plan.call, this.limit.timeoutMs, onResponse, fields);
    });
  }

  /**
   * Combines the responses. A denial takes precedence over an unavailable service, which takes precedence over
   * responses that allow the request.
   */
  #evaluate(
    view: RequestView,
    described: DescribedRequest,
    plans: readonly PlannedCall[],
    responses: readonly ServiceOutcome[],
    watcher?: CallWatcher,
  ): GateResult {
    const nowMs = this.#services.clock.monotonicMs();
    const responded: RateLimitResponse[] = [];
    let denial: { readonly plan: PlannedCall | undefined; readonly response: RateLimitResponse } | undefined;
    for (let at = 0; at < responses.length; at++) {
      const outcome = responses[at];
      if (outcome?.kind !== "responded") continue;
      const { response } = outcome;
      this.#learn(plans[at], response, nowMs);
      if (response.overallCode === "OVER_LIMIT") denial ??= { plan: plans[at], response };
      responded.push(response);
    }
    const holds = this.#reserves ? this.#holdsOf(plans, responses) : undefined;
    const [first] = responded;
    const isIncomplete = first === undefined || responded.length < responses.length;
    if (denial !== undefined || isIncomplete) this.#refund(holds?.takeAll() ?? none, watcher);
    if (denial !== undefined) {
      return this.#deny(described, denial.plan?.descriptors ?? described.descriptors, denial.response, nowMs);
    }
    if (isIncomplete) return this.#applyFailureMode(view, described);
    return {
      ...{ kind: "allowed", by: "service", ...described, holds },
      view: this.#shown(nearest(responded.map(viewOfAllowed)), plans, responded),
      backendHeaders: responded.length === 1 ? backendHeaders(first) : responded.flatMap(backendHeaders),
      reservation: undefined,
    };
  }

  #holdsOf(plans: readonly PlannedCall[], responses: readonly ServiceOutcome[]): ServiceHolds | undefined {
    const holds = plans.flatMap((plan, at) => {
      const outcome = responses[at];
      return outcome?.kind === "responded" ? holdsOf(plan, outcome.response) : none;
    });
    return holds.length === 0 ? undefined : new ServiceHolds(holds);
  }

  /**
   * Returns the view with the headers that the policy sends. The responses to all calls are present, in the order of
   * the calls.
   */
  #shown(
    view: LimitView | undefined,
    plans: readonly PlannedCall[],
    responses: readonly RateLimitResponse[],
  ): LimitView | undefined {
    if (view === undefined || this.limit.headers === undefined) return view;
    const listed = listsLimits(this.limit)
      ? responses.flatMap(({ statuses }, at) =>
          shownStatuses(this.limit, plans[at]?.descriptors.map(policyOf) ?? none, statuses),
        )
      : undefined;
    if (sendsFamily(this.limit, "XRateLimit")) return { ...view, listed };
    return { limitHeaders: none, otherHeaders: view.otherHeaders, share: undefined, listed };
  }

  /** Learns only limits that can be used: the policy's own fallback takes precedence over learned limits. */
  #learn(plan: PlannedCall | undefined, response: RateLimitResponse, nowMs: number): void {
    if (plan === undefined || this.limit.failureMode !== "Local" || !this.#fallback.isEmpty) return;
    this.#services.learned.learn(this.limit, plan.descriptors, response, nowMs);
  }

  /** @param called the descriptors of the call that was denied. */
  #deny(
    described: DescribedRequest,
    called: readonly RequestDescriptor[],
    response: RateLimitResponse,
    nowMs: number,
  ): GlobalDenial {
    const denial: ServiceDenial = { response, atMs: nowMs, descriptors: called.map(policyOf) };
    const cacheMs = Math.min(minDenialMs(response.statuses), maxCacheMs);
    // A refund may end a denial before the window does.
    const isFinal = response.heldAtMs === undefined;
    if (isFinal && cacheMs > 0) this.#cache(this.#cacheKey(described), denial, nowMs + cacheMs);
    return { kind: "global", limit: this.limit, by: "service", ...described, cause: denial };
  }

  #cache(key: string, { response, ...denial }: ServiceDenial, expiresMs: number): void {
    const { rawBody } = response;
    // A copy, since the body is a part of the whole message.
    const kept = { ...response, rawBody: rawBody && Buffer.from(rawBody) };
    const cached = { service: this.limit.service, denial: { ...denial, response: kept } };
    const owner = namespaceOf(this.limit);
    this.#services.denials.set(key, cached, { owner, expiresMs, bytes: key.length + bytesOf(response) });
  }

  #cachedDenial(described: DescribedRequest): GlobalDenial | undefined {
    const { denials, clock } = this.#services;
    if (denials.isEmpty) return undefined;
    const cached = denials.get(this.#cacheKey(described), clock.monotonicMs());
    if (cached === undefined) return undefined;
    return { kind: "global", limit: this.limit, by: "cache", ...described, cause: cached.denial };
  }

  /**
   * Returns a cache key of the whole content of the call, so that an edit of the policy leads to a new call. The key
   * covers all descriptors together: a descriptor that is over its limit is not necessarily the one that caused the
   * denial.
   */
  #cacheKey({ descriptors }: DescribedRequest): string {
    let key = `${this.limit.service}\n`;
    for (const descriptor of descriptors) {
      key += `${keyOf(this.limit.domain, descriptor)} ×${descriptor.hits}${overrideKeyOf(descriptor)}\n`;
    }
    return key;
  }

  /** Decides while the service is unavailable. */
  #applyFailureMode(view: RequestView, described: DescribedRequest): GateResult {
    const { failureMode } = this.limit;
    if (failureMode === "Closed") return { kind: "unavailable", limit: this.limit, by: "failureMode", ...described };
    if (failureMode === "Open") return allowed("failureMode", described);
    const { clock, counters } = this.#services;
    const nowMs = clock.monotonicMs();
    if (!this.#fallback.isEmpty) return this.#resultOf("fallback", this.#fallback.decide(view, nowMs), described);
    const limits = this.#services.learned.limitsOf(this.limit, described.descriptors, nowMs);
    if (limits.length === 0) return allowed("failureMode", described);
    return this.#resultOf("learned", compileLimits(limits, counters, "global").decide(view, nowMs), described);
  }

  /** Returns the result of in-process counters; for the client it looks like a local limit. */
  #resultOf(by: GlobalDecider, decision: LocalDecision, described: DescribedRequest): GateResult {
    if (decision.kind === "denied") return { kind: "global", limit: this.limit, by, ...described, cause: decision.by };
    if (decision.kind === "unavailable") {
      const isUnpriced = decision.cause === "unpriced";
      return {
        ...{ kind: "unavailable", limit: this.limit, by: "failureMode" },
        ...described,
        ...(isUnpriced && { isUnpriced }),
      };
    }
    const { report, reservation } = decision;
    const shown = viewOfState(report.state, report.listed);
    return { kind: "allowed", by, view: shown, backendHeaders: none, reservation, ...described };
  }
}

function policyOf({ compiled }: RequestDescriptor): GlobalDescriptor {
  return compiled.descriptor;
}

/** Bytes of a response or a status without its texts, approximately. */
const objectBytes = 200;

/** Returns the memory that a cached response takes, approximately. */
function bytesOf({ rawBody, responseHeaders, requestHeaders, statuses }: RateLimitResponse): number {
  let bytes = objectBytes * (1 + statuses.length) + (rawBody?.length ?? 0);
  for (const { limit } of statuses) bytes += limit?.name.length ?? 0;
  for (const { name, value } of [...responseHeaders, ...requestHeaders]) {
    bytes += objectBytes + name.length + value.length;
  }
  return bytes;
}

function allowed(by: GlobalDecider, described: DescribedRequest): GateAllowed {
  return { kind: "allowed", by, view: undefined, backendHeaders: none, reservation: undefined, ...described };
}

/** Returns the headers for the state of in-process counters. */
export function viewOfState(
  state: LimitState | undefined,
  listed: readonly ShownLimit[] | undefined,
): LimitView | undefined {
  if (state === undefined) {
    return listed === undefined ? undefined : { limitHeaders: none, otherHeaders: none, share: undefined, listed };
  }
  return {
    limitHeaders: limitHeaders(state),
    otherHeaders: none,
    share: state.remaining / Math.max(1, state.limit),
    listed,
  };
}

/** Returns the limit headers of the limit nearest to exhaustion, all other headers, and all listed limits. */
export function nearest(views: readonly LimitView[]): LimitView | undefined {
  const [first, ...rest] = views;
  if (first === undefined || rest.length === 0) return first;
  const closest = views.reduce((a, b) => ((b.share ?? Infinity) < (a.share ?? Infinity) ? b : a));
  const listed = views.flatMap((view) => view.listed ?? []);
  return {
    ...closest,
    otherHeaders: views.flatMap(({ otherHeaders }) => otherHeaders),
    listed: listed.length === 0 ? undefined : listed,
  };
}
