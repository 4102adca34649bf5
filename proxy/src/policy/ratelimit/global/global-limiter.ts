/**
 * The global limits of a worker: its services, with connections, breakers and charges that outlive snapshots, and the
 * sets of limits that apply to each rule of the snapshot in force.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { RequestView } from "../../../cel/request-view.ts";
import { RequestWork } from "../../../cel/request-work.ts";
import type { GlobalDecision, GlobalLimit } from "../../../ir/global-limit.ts";
import type { RefundCause } from "../../../ir/limit.ts";
import type { Backend, BackendKey } from "../../../ir/snapshot.ts";
import type { TokenUsage } from "../../../ir/usage.ts";
import type { CounterTable } from "../counter-table.ts";
import type { LimitView } from "./answer-headers.ts";
import {
  type GateServices,
  LimitGate,
  nearest,
  type Passed,
  type Refused,
  type Undecided,
  type Verdict,
  viewOfState,
} from "./limit-gate.ts";
import type { Learned } from "./learned-limits.ts";
import type { RequestDescriptor } from "./descriptors.ts";
import type { CallWatcher } from "./call-watcher.ts";
import type { GlobalLimitObserver } from "./observer.ts";
import { ServiceClient, type ServiceState } from "./service-client.ts";
import type { Endpoints, UnaryClient } from "./grpc/unary-client.ts";

export interface GlobalLimiterOptions {
  readonly clock: Clock;
  /** Speaks to the service of that key; closed by the limiter. */
  readonly openClient: (service: string) => UnaryClient;
  /** Of the worker: fallback counters are exact over all workers. */
  readonly counters: CounterTable;
  readonly observer: GlobalLimitObserver;
  /** Something failed inside the gateway when an answer came; the call goes on. Absent: the thread ends. */
  readonly onFault?: ((error: unknown) => void) | undefined;
  /** A service that was away answers again; for the other workers. */
  readonly onServiceBack?: ((service: string) => void) | undefined;
}

/** A service that no limit names any more is kept for requests that began before, and for an edit that names it again. */
const retirementMs = 60_000;

interface Retired {
  readonly service: ServiceClient;
  readonly timer: Timer;
}

export class GlobalLimiter {
  readonly #options: GlobalLimiterOptions;
  readonly #gateServices: GateServices;
  readonly #services = new Map<string, ServiceClient>();
  readonly #retired = new Map<string, Retired>();
  /** By limit of the snapshot, since all rules under a policy share one. */
  #gates = new WeakMap<GlobalLimit, LimitGate>();

  constructor(options: GlobalLimiterOptions) {
    const { clock, counters } = options;
    this.#options = options;
    this.#gateServices = { clock, counters };
  }

  /** Makes ready for the limits of a snapshot: connects to new services, retires those that none of them names. */
  prepare(limits: readonly GlobalLimit[], backends: Readonly<Record<BackendKey, Backend>>): void {
    const wanted = new Set(limits.map(({ service }) => service));
    for (const [key, service] of this.#services) {
      if (wanted.has(key)) continue;
      this.#services.delete(key);
      this.#retire(key, service);
    }
    for (const key of wanted) this.#open(key, backends[key] ?? nowhere);
    this.#gates = new WeakMap();
  }

  /** The limits of one rule, all of them among those prepared; undefined for none. */
  compile(limits: readonly GlobalLimit[] = []): GlobalLimitSet | undefined {
    if (limits.length === 0) return undefined;
    return new GlobalLimitSet(
      limits.map((limit) => this.#gateOf(limit)),
      this.#options.clock,
    );
  }

  /** At most `max` of the limits that services have reported, for operators. */
  learned(max: number): readonly Learned[] {
    const nowMs = this.#options.clock.monotonicMs();
    return [...this.#services.values()].flatMap((service) => service.learned.list(nowMs, max)).slice(0, max);
  }

  /** Every service that is in use, for operators. */
  state(): readonly ServiceState[] {
    return Array.from(this.#services.values(), (service) => service.state());
  }

  /** Another worker has found that a service is back. */
  serviceIsBack(key: string): void {
    this.#services.get(key)?.answeredElsewhere();
  }

  /** Resolves when the charges under way have arrived; those for a service that is away are given up. */
  async drain(): Promise<void> {
    await Promise.all(this.#all().map((service) => service.idle()));
  }

  /** Closes every connection now. */
  close(): void {
    for (const { timer } of this.#retired.values()) timer.cancel();
    for (const service of this.#all()) service.close();
    this.#services.clear();
    this.#retired.clear();
  }

  #all(): readonly ServiceClient[] {
    return [...this.#services.values(), ...Array.from(this.#retired.values(), ({ service }) => service)];
  }

  #open(key: string, endpoints: Endpoints): ServiceClient {
    let service = this.#services.get(key) ?? this.#recall(key);
    if (service === undefined) {
      const { clock, openClient, observer, onServiceBack, onFault } = this.#options;
      const onBack = (): void => onServiceBack?.(key);
      service = new ServiceClient({ key, client: openClient(key), clock, observer, onBack, onFault });
      this.#services.set(key, service);
    }
    service.update(endpoints);
    return service;
  }

  #retire(key: string, service: ServiceClient): void {
    const timer = this.#options.clock.setTimer(retirementMs, () => {
      this.#retired.delete(key);
      service.close();
    });
    this.#retired.set(key, { service, timer });
  }

  /** Takes a service out of retirement, with all that it knows. */
  #recall(key: string): ServiceClient | undefined {
    const retired = this.#retired.get(key);
    if (retired === undefined) return undefined;
    retired.timer.cancel();
    this.#retired.delete(key);
    this.#services.set(key, retired.service);
    return retired.service;
  }

  #gateOf(limit: GlobalLimit): LimitGate {
    const known = this.#gates.get(limit);
    if (known !== undefined) return known;
    const service = this.#services.get(limit.service) ?? this.#open(limit.service, nowhere);
    const gate = new LimitGate(limit, service, this.#gateServices);
    this.#gates.set(limit, gate);
    return gate;
  }
}

/** Of a service that does not exist. */
const nowhere: Endpoints = { endpoints: [] };

/** The outcome of one request at the global limits; `decisions` has one item per limit. */
export type GlobalAdmission =
  | { readonly kind: "allowed"; readonly pass: GlobalPass; readonly decisions: readonly GlobalDecision[] }
  | {
      readonly kind: "denied";
      /** Flat, content type included. */
      readonly headers: readonly string[];
      readonly body: Buffer | string;
      /** Of the limit whose refusal is told. */
      readonly limit: GlobalLimit;
      readonly refused: Refused;
      readonly decisions: readonly GlobalDecision[];
    }
  /** A service failed, and the limit's failure mode is `Closed`. */
  | {
      readonly kind: "undecided";
      readonly limit: GlobalLimit;
      readonly refused: Undecided;
      readonly decisions: readonly GlobalDecision[];
    }
  /** A limit counts by values that are longer than a call may have; no service was asked. */
  | { readonly kind: "tooLong"; readonly decisions: readonly never[] };

/** The global limits of one rule. */
export class GlobalLimitSet {
  readonly #gates: readonly LimitGate[];
  readonly #clock: Clock;
  /** In the order of the decisions. */
  readonly limits: readonly GlobalLimit[];
  /** Some expression asks for the body of the request. */
  readonly needsBody: boolean;
  /** Whether responses must be read for their token usage. */
  readonly countsTokens: boolean;

  constructor(gates: readonly LimitGate[], clock: Clock) {
    this.#gates = gates;
    this.#clock = clock;
    this.limits = gates.map(({ limit }) => limit);
    this.needsBody = gates.some((gate) => gate.needsBody);
    this.countsTokens = gates.some((gate) => gate.countsTokens);
  }

  /** Whether what the request costs takes too much work to compute for one of the limits; then it must not be admitted. */
  costsTooMuch(view: RequestView): boolean {
    return this.#gates.some((gate) => gate.costsTooMuch(view));
  }

  /**
   * Decides one request; `done` hears of it once, perhaps at once, at the latest after the longest timeout of the limits,
   * which are all asked at the same time.
   *
   * @param watcher of a request that is logged in detail.
   */
  admit(view: RequestView, done: (admission: GlobalAdmission) => void, watcher?: CallWatcher): void {
    const described: (readonly RequestDescriptor[])[] = [];
    // First all of them, so that no service counts a request that is refused here.
    for (const gate of this.#gates) {
      const descriptors = gate.describe(view);
      if (descriptors === "tooLong") {
        done({ kind: "tooLong", decisions: [] });
        return;
      }
      described.push(descriptors);
    }
    const verdicts: Verdict[] = [];
    let open = this.#gates.length;
    for (let at = 0; at < this.#gates.length; at++) {
      const conclude = (verdict: Verdict): void => {
        verdicts[at] = verdict;
        open--;
        if (open === 0) done(this.#conclude(view, verdicts));
      };
      this.#gates[at]?.decide(view, described[at] ?? [], conclude, watcher);
    }
  }

  #conclude(view: RequestView, verdicts: readonly Verdict[]): GlobalAdmission {
    const decisions: GlobalDecision[] = [];
    const passes: GatePass[] = [];
    let denied: { readonly verdict: Exclude<Verdict, Passed>; readonly limit: GlobalLimit } | undefined;
    for (let at = 0; at < verdicts.length; at++) {
      const verdict = verdicts[at];
      const gate = this.#gates[at];
      if (verdict === undefined || gate === undefined) continue;
      const isEnforced = gate.limit.mode === "Enforce";
      const isPassed = verdict.kind === "passed";
      const outcome = isPassed ? "allowed" : isEnforced ? "denied" : "shadowDenied";
      decisions.push({ limit: gate.limit, outcome, by: verdict.by });
      if (isPassed) passes.push({ gate, verdict });
      // A refusal says more than a failure.
      else if (isEnforced && denied?.verdict.kind !== "refused") denied = { verdict, limit: gate.limit };
    }
    const pass = new GlobalPass(passes, view, this.#clock);
    if (denied === undefined) return { kind: "allowed", pass, decisions };
    pass.refund();
    const { verdict, limit } = denied;
    if (verdict.kind === "undecided") return { kind: "undecided", limit, refused: verdict, decisions };
    return { kind: "denied", headers: verdict.headers, body: verdict.body, limit, refused: verdict, decisions };
  }
}

interface GatePass {
  readonly gate: LimitGate;
  readonly verdict: Passed;
}

/** What a request that passed takes along: headers for both sides, and the budgets that its response is charged to. */
export class GlobalPass {
  readonly #passes: readonly GatePass[];
  readonly #view: RequestView;
  readonly #clock: Clock;
  #told: LimitView | undefined;

  constructor(passes: readonly GatePass[], view: RequestView, clock: Clock) {
    this.#passes = passes;
    this.#view = view;
    this.#clock = clock;
    this.#told = this.#nearest(({ view }) => view);
  }

  /** What the client is told; undefined where nothing is known. */
  get view(): LimitView | undefined {
    return this.#told;
  }

  /** A limit that only watches does not show. */
  #nearest(viewOf: (verdict: Passed) => LimitView | undefined): LimitView | undefined {
    return nearest(
      this.#passes.flatMap(({ gate, verdict }) => {
        const view = viewOf(verdict);
        return gate.limit.mode === "Enforce" && view !== undefined ? view : [];
      }),
    );
  }

  /** What the services want the backend to see; flat, names in lower case. */
  get backendHeaders(): readonly string[] {
    return this.#passes.flatMap(({ verdict }) => verdict.backendHeaders);
  }

  /** Charges the tokens of the response; the services hear of it on their own time. */
  charge(usage: TokenUsage): void {
    if (this.#passes.length === 0) return;
    const { input: inputTokens, output: outputTokens, total: totalTokens, model: responseModel } = usage;
    const llm = { ...this.#view.llm, inputTokens, outputTokens, totalTokens, responseModel };
    // What the costs may take was checked before the request was sent; its other expressions take nothing now.
    const view = { ...this.#view, llm, work: new RequestWork() };
    for (const { gate, verdict } of this.#passes) gate.charge(verdict, view, usage);
  }

  /** Gives back what in-process counters have counted, as `Lease.refund`; a service keeps what it has. */
  refund(cause?: RefundCause): void {
    const nowMs = this.#clock.monotonicMs();
    this.#told = this.#nearest(({ lease, view }) => {
      return lease === undefined ? view : viewOfState(lease.refund(nowMs, cause));
    });
  }
}
