/** A stream route of a snapshot, compiled to serve connections: all references are resolved before they arrive. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { BackendKey, StreamListener, StreamRoute } from "../ir/snapshot.ts";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import { compileLimits, type LimitSet } from "../policy/ratelimit/local-limiter.ts";
import { HostTable } from "../routing/host-table.ts";
import { compileWeighted, type Picker, type Rotations } from "../routing/weighted.ts";
import type { BackendHandle } from "../upstream/backend-handle.ts";

/** A route at one listener. */
export interface CompiledStreamRoute {
  /** As `StreamRoute.key`. */
  readonly key: string;
  readonly rule: string;
  readonly limits: LimitSet;
  /** Whether all connections are closed, because a policy is invalid. */
  readonly isClosed: boolean;
  /** Picks the backend of the next connection; undefined if no reference has a weight above 0. */
  readonly pick: Picker<StreamTarget>;
  /** The keys of its backends. */
  readonly backends: ReadonlySet<BackendKey>;
}

/** A backend reference with its weight. */
export type StreamTarget =
  | { readonly kind: "invalid"; readonly weight: number }
  | { readonly kind: "backend"; readonly weight: number; readonly backend: BackendHandle };

/** A listener with its routes. */
export interface CompiledStreamListener {
  /** As `StreamListener.key`. */
  readonly key: string;
  readonly protocol: StreamListener["protocol"];
  /** `namespace/name` */
  readonly gateway: string;
  /** Whether TLS is relayed as it is. */
  readonly passesTls: boolean;
  /** By server name; those of TCP and UDP listeners have the first route for every name. */
  readonly routes: HostTable<CompiledStreamRoute>;
  /** By key. */
  readonly byKey: ReadonlyMap<string, CompiledStreamRoute>;
}

/** The state that outlives a snapshot and that its routes refer to. */
export interface StreamContext {
  readonly backends: ReadonlyMap<BackendKey, BackendHandle>;
  readonly counters: CounterTable;
  /** The positions in weighted choices, by the key of the rule. */
  readonly rotations: Rotations;
}

/**
 * Compiles a listener. Throws if an expression of a limit does not parse, which the validation of the configuration
 * excludes.
 */
export function compileStreamListener(context: StreamContext, listener: StreamListener): CompiledStreamListener {
  const { key, protocol, gateway, tls } = listener;
  const routes = new HostTable<CompiledStreamRoute>();
  const byKey = new Map<string, CompiledStreamRoute>();
  for (const route of listener.routes) {
    const compiled = compileRoute(context, route);
    byKey.set(route.key, compiled);
    // The first route of a name is kept, and routes are in their precedence.
    for (const hostname of route.hostnames) routes.add(hostname, compiled);
    if (route.hostnames.length === 0) routes.add(undefined, compiled);
  }
  return {
    key,
    protocol,
    gateway: objectKey(gateway),
    passesTls: protocol === "TLS" && tls === undefined,
    routes,
    byKey,
  };
}

function compileRoute({ backends, counters, rotations }: StreamContext, route: StreamRoute): CompiledStreamRoute {
  const targets = route.backendRefs.map((ref): StreamTarget => {
    const backend = ref.kind === "backend" ? backends.get(ref.backend) : undefined;
    const { weight } = ref;
    return backend === undefined ? { kind: "invalid", weight } : { kind: "backend", weight, backend };
  });
  const weights = targets.map(({ weight }) => weight);
  return {
    key: route.key,
    rule: route.rule,
    limits: compileLimits(route.limits, counters),
    isClosed: route.refusedPolicies !== undefined,
    pick: compileWeighted(targets, rotations.of(route.rule, weights)),
    backends: new Set(targets.flatMap((target) => (target.kind === "backend" ? target.backend.backend.key : []))),
  };
}
