/**
 * The limits of a set of manifests, applied to recorded or invented requests. Requests are matched and counted by the
 * code of the proxy, at times that the caller sets.
 *
 * A policy may lack its targets. Placeholders replace missing Gateways and routes, as the requests and policies name
 * them, so that a single file can be tried against a log.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { type ManifestFile, parseManifests, type ParsedManifests } from "../api/parse-manifests.ts";
import { locateProblems } from "../api/resource-problem.ts";
import type { Secret } from "../api/secret.ts";
import { globalLimitsOf } from "../admin/snapshot-limits.ts";
import type { Identities } from "../cel/identity.ts";
import type { RequestView } from "../cel/request-view.ts";
import { RequestWork } from "../cel/request-work.ts";
import type { GlobalDecision, GlobalLimit } from "../ir/global-limit.ts";
import type { LimitDecision, LocalLimit } from "../ir/limit.ts";
import type { RouteRule } from "../ir/snapshot.ts";
import type { TokenUsage } from "../ir/usage.ts";
import { type PricedBackend, withCost } from "../llm/price.ts";
import { CounterTable, createCounters, defaultCounters } from "../policy/ratelimit/counter-table.ts";
import {
  type GlobalLimitsDecision,
  GlobalLimiter,
  type GlobalLimitSet,
} from "../policy/ratelimit/global/global-limiter.ts";
import type { UnaryClient } from "../policy/ratelimit/global/grpc/unary-client.ts";
import { silentObserver } from "../policy/ratelimit/global/observer.ts";
import { compileLimits, type LimitSet } from "../policy/ratelimit/local-limiter.ts";
import { BudgetExceeded } from "../regex/work-budget.ts";
import { compileRoutes, type RequestHead, type RouteIndex, type RouteMatch } from "../routing/compile-routes.ts";
import { normalizePath } from "../routing/normalize-path.ts";
import { pricingOf } from "../translate/backend/backend-resource.ts";
import { translate } from "../translate/translate.ts";
import { type ServedBy, placeholders } from "./placeholders.ts";
import { identitiesOf, type LoggedIdentity } from "./replay-identity.ts";

export type { LoggedIdentity } from "./replay-identity.ts";

/** A request, and what served it as far as known. */
export interface ReplayRequest extends ServedBy {
  readonly view: Omit<RequestView, "route" | "gateway" | "identities" | "work">;
  /** Absent without an identity. */
  readonly identity?: LoggedIdentity | undefined;
  /** Key of the backend that responded, whose prices apply; absent if it is not known. */
  readonly backend?: string;
}

/** The decision on a replayed request. */
export interface Replayed {
  readonly isAllowed: boolean;
  readonly decisions: readonly LimitDecision[];
  /** Empty if the local limits denied: the service is not called then. */
  readonly globalDecisions: readonly GlobalDecision[];
  /** Charges the usage of the response to an allowed request, at the time when it ended. */
  readonly charge: (usage: TokenUsage, nowMs: number) => void;
}

/** The rate limit services behind global limits. */
export interface ReplayServices {
  /** Returns whether a service can count this limit. */
  readonly knows: (limit: GlobalLimit) => boolean;
  /** Opens a service with these limits, which responds to every call at once, at the time of `clock`. */
  readonly open: (limits: readonly GlobalLimit[], clock: Clock) => UnaryClient;
}

interface CompiledLimits {
  readonly rule: RouteRule;
  readonly route: string;
  readonly gateway: string;
  readonly limits: LimitSet;
  /** Absent if no global limit applies that a service knows. */
  readonly globalLimits: GlobalLimitSet | undefined;
}

/** A clock that stands at the time of the replayed request. Services respond at once, so no timer expires. */
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

/** The limits of a set of manifests with their counters, which start empty. */
export class LimitReplay {
  /** All local limits of all rules, sorted by policy and index. */
  readonly limits: readonly LocalLimit[];
  /** All global limits that are replayed, sorted by id. */
  readonly globalLimits: readonly GlobalLimit[];
  /** Global limits that are not replayed, since no service knows them. */
  readonly globalLimitsLeftOut: readonly GlobalLimit[];
  /** Problems of the manifests that do not prevent a replay, such as a policy without a target. */
  readonly problems: readonly Problem[];
  readonly #byKey: ReadonlyMap<string, CompiledLimits>;
  readonly #indexes: readonly RouteIndex<CompiledLimits>[];
  /** By the key of the Backend, also of those that no rule refers to. */
  readonly #pricing: ReadonlyMap<string, PricedBackend>;
  readonly #secrets: ReadonlyMap<string, Secret>;
  readonly #clock = new ReplayClock();

  /** Fails only if a manifest cannot be parsed. */
  static open(
    files: readonly ManifestFile[],
    served: Iterable<ServedBy>,
    services: ReplayServices,
  ): Result<LimitReplay> {
    const given = parseManifests(files);
    if (given.problems.length > 0) return { ok: false, problems: given.problems };
    const added = placeholders(given.resources, served);
    const parsed = added.length === 0 ? given : parseManifests([...files, ...added]);
    return { ok: true, value: new LimitReplay(parsed, new Set(added.map(({ path }) => path)), services) };
  }

  private constructor(parsed: ParsedManifests, placeholderPaths: ReadonlySet<string>, services: ReplayServices) {
    const { binds, problems } = translate(parsed.resources);
    this.#pricing = new Map(
      parsed.resources.Backend.flatMap(({ metadata, spec: { ai } }) =>
        ai === undefined ? [] : [[`Backend/${objectKey(metadata)}`, pricingOf(ai)] as const],
      ),
    );
    this.#secrets = new Map(parsed.resources.Secret.map((secret) => [objectKey(secret.metadata), secret]));
    const counters = new CounterTable(createCounters(defaultCounters, 1), 1, this.#clock);
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
          const compiled = compile(objectKey(gateway), route, rule);
          byKey.set(keyOf(listener, rule.key), compiled);
          // Logs of another Gateway still name the rule.
          if (!byKey.has(rule.key)) byKey.set(rule.key, compiled);
        }
      }
    }
    this.#indexes = binds.map((bind) =>
      compileRoutes(bind, ({ namespace, name }, { key }, rule) => compile(objectKey({ namespace, name }), key, rule)),
    );
    this.#byKey = byKey;
    this.limits = distinct([...byKey.values()].flatMap(({ rule }) => rule.limits));
    const located = locateProblems(problems, parsed.inForce);
    this.problems = located.filter(({ location }) => location === undefined || !placeholderPaths.has(location.file));
  }

  /**
   * Decides one request; undefined if no rule matches.
   *
   * @param nowMs Must not decrease.
   */
  decide(request: ReplayRequest, nowMs: number): Replayed | undefined {
    const found = this.#find(request);
    if (found === undefined) return undefined;
    const { route, gateway, limits, globalLimits } = found;
    const identities = this.#identitiesAt(found, request);
    const view = { ...request.view, route, gateway, identities, work: new RequestWork() };
    this.#clock.timeMs = nowMs;
    const local = limits.decide(view, nowMs);
    const { decisions } = local.report;
    if (local.kind !== "allowed") return { isAllowed: false, decisions, globalDecisions: [], charge: () => undefined };
    const global = globalLimits === undefined ? undefined : decideGlobally(globalLimits, view);
    const isAllowed = global === undefined || global.kind === "allowed";
    if (!isAllowed) local.reservation.refund(nowMs);
    return {
      isAllowed,
      decisions,
      globalDecisions: global?.report.decisions ?? [],
      charge: (usage, endMs) => {
        this.#clock.timeMs = endMs;
        local.reservation.charge(usage, endMs);
        if (global?.kind === "allowed") global.reservation.charge(usage, endMs);
      },
    };
  }

  /**
   * Returns the usage of a response with its cost by the prices of the manifests. Without a price there, it keeps its
   * own cost.
   */
  priced({ backend = "", view: { llm } }: ReplayRequest, usage: TokenUsage): TokenUsage {
    const pricing = this.#pricing.get(backend);
    const { requestModel, clientModel } = llm ?? {};
    return withCost(usage, requestModel === undefined ? pricing : { ...pricing, model: requestModel }, clientModel);
  }

  /** Returns the identities of a request by their owner; undefined if no rule matches. */
  identitiesOf(request: ReplayRequest): Identities | undefined {
    const found = this.#find(request);
    return found === undefined ? undefined : this.#identitiesAt(found, request);
  }

  #identitiesAt({ rule }: CompiledLimits, { identity }: ReplayRequest): Identities | undefined {
    if (identity === undefined) return undefined;
    return identitiesOf(identity, rule.authentication ?? [], (namespace, name) =>
      this.#secrets.get(objectKey({ namespace, name })),
    );
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
    limiter.prepare(limits, () => undefined);
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
      const match = findWithinBudget(index, head);
      if (match !== undefined) return match.compiled;
    }
    return undefined;
  }
}

/** Returns undefined for a request that takes too much work to match: the proxy rejected it and counted it nowhere. */
function findWithinBudget<T>(index: RouteIndex<T>, head: RequestHead): RouteMatch<T> | undefined {
  try {
    return index.find(head);
  } catch (error) {
    if (error instanceof BudgetExceeded) return undefined;
    throw error;
  }
}

function decideGlobally(limits: GlobalLimitSet, view: RequestView): GlobalLimitsDecision {
  let result: GlobalLimitsDecision | undefined;
  limits.decide(view, (decided) => {
    result = decided;
  });
  if (result === undefined) throw new Error("a service of the replay did not respond at once");
  return result;
}

type CompileLimits = (gateway: string, route: string, rule: RouteRule) => CompiledLimits;

/** Compiles each rule of a Gateway once, so that its users share one set of counters. */
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

/** Returns one limit per counter, sorted by policy, index and target. */
function distinct(limits: readonly LocalLimit[]): readonly LocalLimit[] {
  const byCounter = new Map(limits.map((limit) => [limit.counter, limit]));
  const order = ({ policy, entry, target }: LocalLimit): string => `${policy} ${String(entry).padStart(3)} ${target}`;
  return [...byCounter.values()].sort((a, b) => (order(a) < order(b) ? -1 : 1));
}
