/**
 * The limits of a set of manifests, to be asked about requests that were made elsewhere or are made up: parsed,
 * translated, routed and counted by the very code that serves, with the time as the caller says.
 *
 * A policy may come without what it is attached to. Gateways and routes that are missing are then stood in for, as the
 * requests and the policies name them, so that one file can be tried against a log.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { type ManifestFile, parseManifests, type ParsedManifests } from "../api/parse-manifests.ts";
import { locateProblems } from "../api/resource-problem.ts";
import { globalLimitsOf } from "../admin/snapshot-limits.ts";
import type { RequestView } from "../cel/request-view.ts";
import type { GlobalDecision, GlobalLimit } from "../ir/global-limit.ts";
import type { LimitDecision, LocalLimit } from "../ir/limit.ts";
import type { RouteRule } from "../ir/snapshot.ts";
import type { TokenUsage } from "../ir/usage.ts";
import { CounterTable, defaultCounters } from "../policy/ratelimit/counter-table.ts";
import { type GlobalAdmission, GlobalLimiter, type GlobalLimitSet } from "../policy/ratelimit/global/global-limiter.ts";
import type { UnaryClient } from "../policy/ratelimit/global/grpc/unary-client.ts";
import { silentObserver } from "../policy/ratelimit/global/observer.ts";
import { compileLimits, type LimitSet } from "../policy/ratelimit/local-limiter.ts";
import { BudgetExceeded } from "../regex/work-budget.ts";
import { compileRoutes, type RequestHead, type RouteIndex, type RouteMatch } from "../routing/compile-routes.ts";
import { normalizePath } from "../routing/normalize-path.ts";
import { translate } from "../translate/translate.ts";
import { type ServedBy, standIns } from "./stand-ins.ts";

/** A request, and as far as it is known by what it was served. */
export interface ReplayRequest extends ServedBy {
  readonly view: Omit<RequestView, "route" | "gateway">;
}

/** What the limits say of a request. */
export interface Replayed {
  readonly isAdmitted: boolean;
  readonly decisions: readonly LimitDecision[];
  /** Empty where the local limits refused: the service is not asked then. */
  readonly globalDecisions: readonly GlobalDecision[];
  /** Charges what the answer to an admitted request has cost, when it ended. */
  readonly charge: (usage: TokenUsage, nowMs: number) => void;
}

/** The rate limit services behind global limits. */
export interface ReplayServices {
  /** Whether there is anything that could count this limit. */
  readonly knows: (limit: GlobalLimit) => boolean;
  /** A service with these limits on it, which answers every call at once, at the time of `clock`. */
  readonly open: (limits: readonly GlobalLimit[], clock: Clock) => UnaryClient;
}

interface CompiledLimits {
  readonly rule: RouteRule;
  readonly route: string;
  readonly gateway: string;
  readonly limits: LimitSet;
  /** Absent where no global limit applies, or none that a service knows. */
  readonly globalLimits: GlobalLimitSet | undefined;
}

/** The time of the request that is being replayed. Nothing waits: a service answers at once, so no timer is ever due. */
class ReplayClock implements Clock {
  timeMs = 0;

  nowMs(): number {
    return this.timeMs;
  }

  monotonicMs(): number {
    return this.timeMs;
  }

  setTimer(): { cancel(): void } {
    return { cancel: () => undefined };
  }

  every(): { cancel(): void } {
    return { cancel: () => undefined };
  }
}

export class LimitReplay {
  /** Every local entry that some rule is under, by policy and place. */
  readonly limits: readonly LocalLimit[];
  /** Every global limit that is replayed, sorted alike. */
  readonly globalLimits: readonly GlobalLimit[];
  /** Those that are not, since no service knows them. */
  readonly globalLimitsLeftOut: readonly GlobalLimit[];
  /** What is wrong with the manifests and does not hinder; such as a policy without target. */
  readonly problems: readonly Problem[];
  readonly #byKey: ReadonlyMap<string, CompiledLimits>;
  readonly #indexes: readonly RouteIndex<CompiledLimits>[];
  readonly #clock = new ReplayClock();

  /** Fails only where the text of a manifest is wrong. */
  static open(
    files: readonly ManifestFile[],
    served: Iterable<ServedBy>,
    services: ReplayServices,
  ): Result<LimitReplay> {
    const given = parseManifests(files);
    if (given.problems.length > 0) return { ok: false, problems: given.problems };
    const standing = standIns(given.resources, served);
    const parsed = standing.length === 0 ? given : parseManifests([...files, ...standing]);
    return { ok: true, value: new LimitReplay(parsed, new Set(standing.map(({ path }) => path)), services) };
  }

  private constructor(parsed: ParsedManifests, standInPaths: ReadonlySet<string>, services: ReplayServices) {
    const { binds, problems } = translate(parsed.resources);
    const counters = new CounterTable(createCounterMemory(defaultCounters), 1);
    const every = globalLimitsOf({ binds }).toSorted((a, b) => (a.id < b.id ? -1 : 1));
    this.globalLimits = every.filter(services.knows);
    this.globalLimitsLeftOut = every.filter((limit) => !services.knows(limit));
    const globalLimiter = this.#openLimiter(counters, services);
    const byKey = new Map<string, CompiledLimits>();
    const compile = memoised((gateway: string, route: string, rule: RouteRule): CompiledLimits => {
      return {
        ...{ rule, route, gateway },
        limits: compileLimits(rule.limits, counters),
        globalLimits: globalLimiter.compile(rule.globalLimits?.filter(services.knows)),
      };
    });
    for (const { key: listener, gateway, routes } of binds.flatMap(({ listeners }) => listeners)) {
      for (const { key: route, rules } of routes) {
        for (const rule of rules) {
          const compiled = compile(`${gateway.namespace}/${gateway.name}`, route, rule);
          byKey.set(keyOf(listener, rule.key), compiled);
          // A log of another Gateway's still names the rule.
          if (!byKey.has(rule.key)) byKey.set(rule.key, compiled);
        }
      }
    }
    this.#indexes = binds.map((bind) =>
      compileRoutes(bind, ({ namespace, name }, { key }, rule) => compile(`${namespace}/${name}`, key, rule)),
    );
    this.#byKey = byKey;
    this.limits = distinct([...byKey.values()].flatMap(({ rule }) => rule.limits));
    const ours = locateProblems(problems, parsed.inForce);
    this.problems = ours.filter(({ location }) => location === undefined || !standInPaths.has(location.file));
  }

  /** Undefined for a request that no rule serves. `nowMs` must not go back. */
  admit(request: ReplayRequest, nowMs: number): Replayed | undefined {
    const found = this.#find(request);
    if (found === undefined) return undefined;
    const { route, gateway, limits, globalLimits } = found;
    const view = { ...request.view, route, gateway };
    this.#clock.timeMs = nowMs;
    const local = limits.admit(view, nowMs);
    const { decisions } = local;
    if (local.kind === "denied") return { isAdmitted: false, decisions, globalDecisions: [], charge: () => undefined };
    const global = globalLimits === undefined ? undefined : admitGlobally(globalLimits, view);
    const isAdmitted = global === undefined || global.kind === "allowed";
    if (!isAdmitted) local.lease.refund(nowMs);
    return {
      isAdmitted,
      decisions,
      globalDecisions: global?.decisions ?? [],
      charge: (usage, endMs) => {
        this.#clock.timeMs = endMs;
        local.lease.charge(usage.total, endMs);
        if (global?.kind === "allowed") global.pass.charge(usage);
      },
    };
  }

  #openLimiter(counters: CounterTable, { open }: ReplayServices): GlobalLimiter {
    const limits = this.globalLimits;
    const limiter = new GlobalLimiter({
      clock: this.#clock,
      counters,
      observer: silentObserver,
      openClient: (key) =>
        open(
          limits.filter(({ service }) => service === key),
          this.#clock,
        ),
    });
    limiter.prepare(limits, {});
    return limiter;
  }

  #find({ listener, rule, view }: ReplayRequest): CompiledLimits | undefined {
    if (rule !== undefined) {
      const known = this.#byKey.get(keyOf(listener ?? "", rule)) ?? this.#byKey.get(rule);
      if (known !== undefined) return known;
    }
    const path = normalizePath(view.path);
    if (path === undefined) return undefined;
    const head = { method: view.method, path, authority: view.authority, rawHeaders: view.rawHeaders };
    for (const index of this.#indexes) {
      const match = findAffordable(index, head);
      if (match !== undefined) return match.compiled;
    }
    return undefined;
  }
}

/** A request that is too costly to match was refused by the proxy, and counted nowhere. */
function findAffordable<T>(index: RouteIndex<T>, head: RequestHead): RouteMatch<T> | undefined {
  try {
    return index.find(head);
  } catch (error) {
    if (error instanceof BudgetExceeded) return undefined;
    throw error;
  }
}

function admitGlobally(limits: GlobalLimitSet, view: RequestView): GlobalAdmission {
  let answer: GlobalAdmission | undefined;
  limits.admit(view, (admission) => {
    answer = admission;
  });
  if (answer === undefined) throw new Error("a service of the replay did not answer at once");
  return answer;
}

type CompileLimits = (gateway: string, route: string, rule: RouteRule) => CompiledLimits;

/** Compiles each rule of a Gateway once, so that all that count by it share counters of one decision. */
function memoised(compile: CompileLimits): CompileLimits {
  const known = new Map<string, Map<RouteRule, CompiledLimits>>();
  return (gateway, route, rule) => {
    const ofGateway = known.get(gateway) ?? new Map<RouteRule, CompiledLimits>();
    known.set(gateway, ofGateway);
    const compiled = ofGateway.get(rule) ?? compile(gateway, route, rule);
    ofGateway.set(rule, compiled);
    return compiled;
  };
}

function keyOf(listener: string, rule: string): string {
  return `${listener} ${rule}`;
}

/** One of each counter, sorted as people look for them. */
function distinct(limits: readonly LocalLimit[]): readonly LocalLimit[] {
  const byCounter = new Map(limits.map((limit) => [limit.counter, limit]));
  const order = ({ policy, entry, target }: LocalLimit): string => `${policy} ${String(entry).padStart(3)} ${target}`;
  return [...byCounter.values()].sort((a, b) => (order(a) < order(b) ? -1 : 1));
}
