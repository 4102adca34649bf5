/** A rule of a snapshot in the form that serves requests: everything that can be known before one has been looked up. */
import { isIP } from "node:net";
import { type CompiledFilters, compileFilters } from "../filters/compile-filters.ts";
import type { AiBackend, Backend, BackendKey, BackendRef, Listener, Route, RouteRule } from "../ir/snapshot.ts";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import { compileLimits, type LimitSet } from "../policy/ratelimit/local-limiter.ts";
import { compileWeighted, type Picker } from "../routing/weighted.ts";
import type { BackendHandle } from "../upstream/backends.ts";

export interface CompiledRule {
  /** Keys as in the snapshot. */
  readonly listener: string;
  readonly route: string;
  readonly rule: string;
  /** `namespace/name` */
  readonly gateway: string;
  readonly limits: LimitSet;
  /** The target of the next request; nothing when the rule names none that may be chosen. */
  readonly pick: Picker<CompiledTarget>;
}

export type CompiledTarget =
  | { readonly kind: "invalid"; readonly weight: number }
  | ({ readonly kind: "backend"; readonly weight: number } & BackendTarget);

export interface BackendTarget {
  readonly backend: BackendHandle;
  /** Of the rule and of the reference, in this order. */
  readonly filters: CompiledFilters;
  /** The authority to send where no filter says otherwise; absent keeps the client's. */
  readonly authority: string | undefined;
  readonly ai: AiBackend | undefined;
}

export interface RuleContext {
  readonly backends: ReadonlyMap<BackendKey, BackendHandle>;
  readonly counters: CounterTable;
}

export function compileRule(context: RuleContext, listener: Listener, route: Route, rule: RouteRule): CompiledRule {
  return {
    listener: listener.key,
    route: route.key,
    rule: rule.key,
    gateway: `${listener.gateway.namespace}/${listener.gateway.name}`,
    limits: compileLimits(rule.limits, context.counters),
    pick: compileWeighted(rule.backendRefs.map((ref) => compileTarget(context.backends, rule, ref))),
  };
}

function compileTarget(backends: RuleContext["backends"], rule: RouteRule, ref: BackendRef): CompiledTarget {
  const backend = ref.kind === "backend" ? backends.get(ref.backend) : undefined;
  if (ref.kind === "invalid" || backend === undefined) return { kind: "invalid", weight: ref.weight };
  return {
    kind: "backend",
    weight: ref.weight,
    backend,
    filters: compileFilters([...rule.filters, ...ref.filters]),
    authority: authorityOf(backend.backend),
    ai: backend.backend.ai,
  };
}

/**
 * A Backend that names a host is a server on its own, often behind a shared front that routes by name: it is asked by
 * its own name. A Service is asked by the name that the client used.
 */
function authorityOf(backend: Backend): string | undefined {
  const endpoint = backend.endpoints[0];
  if (backend.kind !== "Backend" || endpoint === undefined || isIP(endpoint.host) !== 0) return undefined;
  const defaultPort = backend.tls === undefined ? 80 : 443;
  return endpoint.port === defaultPort ? endpoint.host : `${endpoint.host}:${endpoint.port}`;
}
