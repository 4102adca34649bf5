/**
 * The limits of a set of manifests, to be asked about requests that were made elsewhere or are made up: parsed,
 * translated, routed and counted by the very code that serves, with the time as the caller says.
 *
 * A policy may come without what it is attached to. Gateways and routes that are missing are then stood in for, as the
 * requests and the policies name them, so that one file can be tried against a log.
 */
import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { type ManifestFile, parseManifests, type ParsedManifests } from "../api/parse-manifests.ts";
import { locateProblems } from "../api/resource-problem.ts";
import type { RequestView } from "../cel/request-view.ts";
import type { LocalLimit } from "../ir/limit.ts";
import type { Listener, RouteRule } from "../ir/snapshot.ts";
import { CounterTable, defaultCounters } from "../policy/ratelimit/counter-table.ts";
import { type Admission, compileLimits, type LimitSet } from "../policy/ratelimit/local-limiter.ts";
import { compileRoutes, type RouteIndex } from "../routing/compile-routes.ts";
import { normalizePath } from "../routing/normalize-path.ts";
import { translate } from "../translate/translate.ts";
import { type ServedBy, standIns } from "./stand-ins.ts";

/** A request, and as far as it is known by what it was served. */
export interface ReplayRequest extends ServedBy {
  readonly view: Omit<RequestView, "route" | "gateway">;
}

/** The rule that a request belongs to, and what its limits say. */
export interface Replayed {
  readonly rule: string;
  readonly admission: Admission;
}

interface CompiledLimits {
  readonly rule: RouteRule;
  readonly route: string;
  readonly gateway: string;
  readonly limits: LimitSet;
}

export class LimitReplay {
  /** Every local entry that some rule is under, by policy and place. */
  readonly limits: readonly LocalLimit[];
  /** Policies with a global limit, which is not replayed: its counters are a service's. */
  readonly globalPolicies: readonly string[];
  /** What is wrong with the manifests and does not hinder; such as a policy without target. */
  readonly problems: readonly Problem[];
  readonly #byKey: ReadonlyMap<string, CompiledLimits>;
  readonly #indexes: readonly RouteIndex<CompiledLimits>[];

  /** Fails only where the text of a manifest is wrong. */
  static open(files: readonly ManifestFile[], served: Iterable<ServedBy>): Result<LimitReplay> {
    const given = parseManifests(files);
    if (given.problems.length > 0) return { ok: false, problems: given.problems };
    const standing = standIns(given.resources, served);
    const parsed = standing.length === 0 ? given : parseManifests([...files, ...standing]);
    return { ok: true, value: new LimitReplay(parsed, new Set(standing.map(({ path }) => path))) };
  }

  private constructor(parsed: ParsedManifests, standInPaths: ReadonlySet<string>) {
    const { binds, problems } = translate(parsed.resources);
    const counters = new CounterTable(createCounterMemory(defaultCounters), 1);
    const byKey = new Map<string, CompiledLimits>();
    const compile = (listener: Listener, { key: route }: { readonly key: string }, rule: RouteRule): CompiledLimits => {
      const { namespace, name } = listener.gateway;
      const compiled = { rule, route, gateway: `${namespace}/${name}`, limits: compileLimits(rule.limits, counters) };
      byKey.set(keyOf(listener.key, rule.key), compiled);
      // A log of another Gateway's still names the rule.
      if (!byKey.has(rule.key)) byKey.set(rule.key, compiled);
      return compiled;
    };
    this.#indexes = binds.map((bind) => compileRoutes(bind, compile));
    this.#byKey = byKey;
    const rules = [...byKey.values()].map(({ rule }) => rule);
    this.limits = distinct(rules.flatMap(({ limits }) => limits));
    this.globalPolicies = [
      ...new Set(rules.flatMap(({ globalLimits = [] }) => globalLimits.map(({ policy }) => policy))),
    ];
    const ours = locateProblems(problems, parsed.inForce);
    this.problems = ours.filter(({ location }) => location === undefined || !standInPaths.has(location.file));
  }

  /** Undefined for a request that no rule serves. `nowMs` must not go back. */
  admit(request: ReplayRequest, nowMs: number): Replayed | undefined {
    const found = this.#find(request);
    if (found === undefined) return undefined;
    const { rule, route, gateway, limits } = found;
    return { rule: rule.key, admission: limits.admit({ ...request.view, route, gateway }, nowMs) };
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
      const match = index.find(head);
      if (match !== undefined) return match.compiled;
    }
    return undefined;
  }
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
