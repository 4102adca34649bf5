/** A rule of a snapshot, compiled to serve requests: all references are resolved before requests arrive. */
import type { Authenticator } from "../authentication/authenticator.ts";
import type { Authenticators } from "../authentication/authenticators.ts";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { hash } from "node:crypto";
import { isIP } from "node:net";
import type { Expression } from "../cel/expression.ts";
import { type CompiledFilters, compileFilters } from "../filters/compile-filters.ts";
import { loopNamePrefix } from "../filters/loop.ts";
import type { Cors, Mirror } from "../ir/filter.ts";
import type {
  AiBackend,
  Backend,
  BackendKey,
  BackendRef,
  Failover,
  ObjectName,
  RetryPolicy,
  Route,
  RouteRule,
  Timeouts,
} from "../ir/snapshot.ts";
import type { UsageChunk } from "../ir/usage.ts";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { GlobalLimiter, GlobalLimitSet } from "../policy/ratelimit/global/global-limiter.ts";
import { compileLimits, type LimitSet } from "../policy/ratelimit/local-limiter.ts";
import type { ParameterNames } from "../routing/query-parameters.ts";
import { compileWeighted, type Picker, type Rotation, type Rotations } from "../routing/weighted.ts";
import type { BackendHandle } from "../upstream/backend-handle.ts";
import { providerIdentity, type ProviderState, type ProviderStates } from "../upstream/provider-states.ts";
import type { MirrorTarget } from "./mirror.ts";
import { compileModels, type RuleModels } from "./rule-models.ts";

/** A rule that is ready to serve requests. It refers to the counters, pools and rotations that outlive its snapshot. */
export interface CompiledRule {
  /** The key of its route, as in the snapshot. */
  readonly route: string;
  /** As `RouteRule.key`. */
  readonly key: string;
  /** `namespace/name` */
  readonly gateway: string;
  /** The name of the Gateway in `CDN-Loop`; all its replicas have the same. */
  readonly loopName: string;
  /** Whether a target of the rule has mirrors. */
  readonly mirrors: boolean;
  /** Undefined if no policy authenticates requests. */
  readonly authentication: Authenticator | undefined;
  /** The local limits of all policies that apply; `isEmpty` if there are none. */
  readonly limits: LimitSet;
  /** The global limits of all policies that apply; undefined if there are none. */
  readonly globalLimits: GlobalLimitSet | undefined;
  /** Whether a limit counts the tokens of responses. */
  readonly countsTokens: boolean;
  /** Whether a limit reserves estimates of requests. */
  readonly reserves: boolean;
  /** Whether a backend of the rule has prices, for which the model of a request must be known. */
  readonly hasPrices: boolean;
  /** Whether a limit denies requests for models without a price. */
  readonly requiresPrice: boolean;
  /** How its policies treat the usage event of streams; the policy with the nearest target decides. */
  readonly usageChunk: UsageChunk | undefined;
  /** Whether the rule denies all requests, because one of its policies is invalid. */
  readonly isClosed: boolean;
  /** The CORS filter of the rule; backend references have none. */
  readonly cors: Cors | undefined;
  /** Query parameters that the expressions of the limits read. */
  readonly queryNames: ParameterNames;
  /** Whether an expression of the limits reads the path. */
  readonly readsPath: boolean;
  /** Gateway API `HTTPRouteTimeouts`; undefined: only the idle timeouts of connections to backends apply. */
  readonly timeouts: Timeouts | undefined;
  /** Gateway API `HTTPRouteRetry`; undefined repeats only attempts that no endpoint has processed, and safe ones. */
  readonly retry: RetryPolicy | undefined;
  /** The redirect filter of the rule; if there is one, no target is picked. */
  readonly redirect: RedirectTarget | undefined;
  /** The provider of its first `ai` Backend, for local replies before a target is picked; undefined if it has none. */
  readonly provider: AiBackend["provider"] | undefined;
  /** Picks the target of the next request; undefined if no target of the rule has a weight above 0. */
  readonly pick: Picker<CompiledTarget>;
  /** The targets by model; undefined where no target lists its models. */
  readonly models: RuleModels<CompiledTarget> | undefined;
}

/**
 * A backend reference of a rule, with its weight: `invalid` gets a 500, `redirect` responds itself, `backend` forwards
 * the request, and of `providers` one of the list forwards it.
 */
export type CompiledTarget =
  | { readonly kind: "invalid"; readonly weight: number }
  | ({ readonly kind: "providers"; readonly weight: number } & ProvidersTarget)
  | ({ readonly kind: "redirect"; readonly weight: number } & RedirectTarget)
  | ({ readonly kind: "backend"; readonly weight: number } & BackendTarget);

/** A target that responds with a redirect. */
export interface RedirectTarget {
  readonly filters: CompiledFilters;
  readonly redirect: NonNullable<CompiledFilters["redirect"]>;
}

/** A backend with the filters of its reference. */
export interface BackendTarget {
  readonly backend: BackendHandle;
  /** The filters of the rule, then those of the reference. */
  readonly filters: CompiledFilters;
  /** The backends that may get a copy of the request; empty for none. */
  readonly mirrors: readonly MirrorTarget[];
  /** The authority to send unless a filter sets one; undefined keeps the client's. */
  readonly authority: string | undefined;
  /** The LLM provider and its model; undefined for any other backend. */
  readonly ai: AiBackend | undefined;
}

/** A Backend with several providers. */
export interface ProvidersTarget {
  /** The Backend with the list, which has no endpoints of its own. */
  readonly backend: BackendHandle;
  /** At least one. */
  readonly providers: readonly CompiledProvider[];
  /** The counters of the choice by weight, by `CompiledProvider.place`. */
  readonly rotation: Rotation;
  /** As `Failover.firstByteTimeoutMs`; 0 is unlimited. */
  readonly firstByteTimeoutMs: number;
  /** As `Failover.streamIdleTimeoutMs`; 0 is unlimited. */
  readonly streamIdleTimeoutMs: number;
}

/** One provider of a list. */
export interface CompiledProvider {
  /** In the list, from 0. */
  readonly place: number;
  readonly priority: number;
  readonly weight: number;
  readonly target: BackendTarget;
  /** What all workers know of it. */
  readonly state: ProviderState;
  /** Whether the gateway has its credentials, so that its quota is one of all clients. */
  readonly hasOwnQuota: boolean;
}

/** The state that outlives a snapshot and that its rules refer to. */
export interface RuleContext {
  /** The backends of the snapshot; a reference to any other key is `invalid`. */
  readonly backends: ReadonlyMap<BackendKey, BackendHandle>;
  /** The counters of local limits, shared by all workers. */
  readonly counters: CounterTable;
  /** Verified tokens and key sets. */
  readonly authenticators: Authenticators;
  /** The rate limit services of the worker. */
  readonly globalLimiter: GlobalLimiter;
  /** The positions in weighted choices, by the key of the rule. */
  readonly rotations: Rotations;
  /** The health and quota of providers, shared by all workers. */
  readonly providers: ProviderStates;
}

/** Compiled limits by their list. The rules of a route mostly share one list. */
export type CompiledLimits = Map<RouteRule["limits"], LimitSet>;

/** Compiles a rule. @param knownLimits shared by the rules of one snapshot. */
export function compileRule(
  context: RuleContext,
  knownLimits: CompiledLimits,
  { namespace, name }: ObjectName,
  route: Route,
  rule: RouteRule,
): CompiledRule {
  const filters = compileFilters(rule.filters);
  const targets = rule.backendRefs.map((ref, place) => compileTarget(context, rule, ref, place));
  const weights = targets.map(({ weight }) => weight);
  const gateway = objectKey({ namespace, name });
  const limits = knownLimits.get(rule.limits) ?? compileLimits(rule.limits, context.counters);
  knownLimits.set(rule.limits, limits);
  const globalLimits = context.globalLimiter.compile(rule.globalLimits);
  return {
    route: route.key,
    key: rule.key,
    gateway,
    loopName: `${loopNamePrefix}${hash("sha256", gateway).slice(0, 8)}`,
    mirrors: targets.some((target) => (backendTargetOf(target)?.mirrors.length ?? 0) > 0),
    authentication: context.authenticators.compile(rule.authentication),
    limits,
    globalLimits,
    countsTokens: limits.countsTokens || globalLimits?.countsTokens === true,
    hasPrices: targets.flatMap(backendsOf).some(({ ai }) => ai?.prices !== undefined),
    reserves: limits.reserves || globalLimits?.reserves === true,
    requiresPrice: limits.requiresPrice || globalLimits?.requiresPrice === true,
    usageChunk: usageChunkOf(rule),
    isClosed: rule.refusedPolicies !== undefined,
    cors: filters.cors,
    ...readsOf([...limits.expressions, ...(globalLimits?.expressions ?? [])]),
    timeouts: rule.timeouts,
    retry: rule.retry,
    redirect: redirectOf(filters),
    provider: providerOf(targets),
    pick: compileWeighted(targets, context.rotations.of(rule.key, weights)),
    models: compileModels(targets, (places) => context.rotations.of(`${rule.key} models ${places.join(",")}`, weights)),
  };
}

function providerOf(targets: readonly CompiledTarget[]): AiBackend["provider"] | undefined {
  const [first] = targets.flatMap((target) => backendTargetOf(target)?.ai ?? []);
  return first?.provider;
}

/** Returns the backends that may get a request of a target. */
export function backendsOf(target: CompiledTarget): readonly BackendTarget[] {
  if (target.kind === "providers") return target.providers.map((provider) => provider.target);
  return target.kind === "backend" ? [target] : [];
}

/** The backend of a target; of a list of providers the first one, which has the same API and filters as the others. */
function backendTargetOf(target: CompiledTarget): BackendTarget | undefined {
  if (target.kind === "providers") return target.providers[0]?.target;
  return target.kind === "backend" ? target : undefined;
}

/** Returns the setting of the policy with the nearest target: a rule, then a route, a listener, a Gateway. */
function usageChunkOf({ limits, globalLimits = [] }: RouteRule): UsageChunk | undefined {
  const saying = [...limits, ...globalLimits].filter(({ usageChunk }) => usageChunk !== undefined);
  return saying.toSorted((one, other) => distanceOf(one.target) - distanceOf(other.target))[0]?.usageChunk;
}

/** @param target as `LocalLimit.target`. */
function distanceOf(target: string): number {
  return (target.startsWith("Gateway/") ? 2 : 0) + (target.includes("#") ? 0 : 1);
}

/** Returns the parts of the request target that the expressions of a rule's limits read. */
function readsOf(expressions: readonly Expression[]): Pick<CompiledRule, "queryNames" | "readsPath"> {
  const reads = expressions.map(({ target }) => target);
  const names = new Set<string>();
  let readsWholeQuery = false;
  for (const { query } of reads) {
    if (query === "all") readsWholeQuery = true;
    else for (const name of query) names.add(name);
  }
  return { queryNames: readsWholeQuery ? "all" : names, readsPath: reads.some(({ path }) => path) };
}

function redirectOf(filters: CompiledFilters): RedirectTarget | undefined {
  return filters.redirect === undefined ? undefined : { filters, redirect: filters.redirect };
}

/** @param place index of the reference in its rule. */
function compileTarget(context: RuleContext, rule: RouteRule, ref: BackendRef, place: number): CompiledTarget {
  const { weight } = ref;
  const backend = ref.kind === "backend" ? context.backends.get(ref.backend) : undefined;
  if (ref.kind === "invalid" || backend === undefined) return { kind: "invalid", weight };
  const filters = compileFilters([...rule.filters, ...ref.filters]);
  const redirect = redirectOf(filters);
  if (redirect !== undefined) return { kind: "redirect", weight, ...redirect };
  const mirrors = compileMirrors(context, `${rule.key}/${place}`, filters.mirrors ?? []);
  const targetOf = (handle: BackendHandle): BackendTarget => ({
    ...{ backend: handle, filters, mirrors, authority: authorityOf(handle.backend), ai: handle.backend.ai },
  });
  const { failover } = backend.backend;
  if (failover !== undefined) {
    return { kind: "providers", weight, ...compileProviders(context, backend, failover, targetOf) };
  }
  return { kind: "backend", weight, ...targetOf(backend) };
}

function compileProviders(
  { backends, rotations, providers: states }: RuleContext,
  backend: BackendHandle,
  { providers, firstByteTimeoutMs = 0, streamIdleTimeoutMs = 0 }: Failover,
  targetOf: (handle: BackendHandle) => BackendTarget,
): ProvidersTarget {
  const weights = providers.map(({ weight }) => weight);
  return {
    backend,
    providers: providers.flatMap(({ backend: key, priority, weight }, place) => {
      const handle = backends.get(key);
      if (handle === undefined) return [];
      const { ai } = handle.backend;
      const hasOwnQuota = ai?.apiKey !== undefined || ai?.signature !== undefined;
      const state = states.of(providerIdentity(handle.backend), handle.backend.namespace);
      return [{ place, priority, weight, target: targetOf(handle), state, hasOwnQuota }];
    }),
    // One rotation for all rules, so that each of them gets its share of the same choices.
    rotation: rotations.of(`${backend.backend.key} providers`, weights),
    firstByteTimeoutMs,
    streamIdleTimeoutMs,
  };
}

/** Compiles mirrors. Their fractions are as exact as the weights of backends. @param owner key of the reference. */
function compileMirrors(
  { backends, rotations }: RuleContext,
  owner: string,
  mirrors: readonly Mirror[],
): MirrorTarget[] {
  return mirrors.flatMap(({ backend: key, numerator, denominator }, place) => {
    const backend = backends.get(key);
    if (backend === undefined) return [];
    const weights = [numerator, denominator - numerator];
    const shares = weights.map((weight, share) => ({ weight, isCopied: share === 0 }));
    const rotation = rotations.of(`${owner} mirror ${place}`, weights);
    return [{ backend, pick: compileWeighted(shares, rotation) }];
  });
}

/**
 * Returns the authority that a Backend with a host name gets: its own name, because such a server is often behind a
 * shared front end that routes by name. Undefined for all others: a Service gets the name that the client used.
 */
function authorityOf(backend: Backend): string | undefined {
  const endpoint = backend.endpoints[0];
  if (backend.kind !== "Backend" || endpoint === undefined || isIP(endpoint.host) !== 0) return undefined;
  const defaultPort = backend.tls === undefined ? 80 : 443;
  return endpoint.port === defaultPort ? endpoint.host : `${endpoint.host}:${endpoint.port}`;
}
