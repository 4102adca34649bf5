/** Builds the snapshot of the data path from the resolved resources: binds, listeners, routes, rules with limits. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Backend, Bind, Listener, Route, RouteRule } from "../../ir/snapshot.ts";
import { type AttachedLimits, type Limits, noLimits } from "../policy/attached-limits.ts";
import { eachObject } from "../each-object.ts";
import { backendFor, ruleFor } from "../gateway/gateway-client-certificate.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import type { ListenerState } from "./listeners.ts";
import { compareText, nameKey } from "../index/object-names.ts";
import { type PolicyState, targetKey } from "../policy/policies.ts";
import { isServed } from "../route/rules.ts";
import { type AttachedRoute, keyOfRoute, routeOf, type RoutesByListener, type RouteState } from "../route/routes.ts";

/** Returns a bind per socket address, sorted by address (none first) and port. Gateways with the same address share it. */
export function* buildBinds(
  gateways: Iterable<GatewayState>,
  routes: RoutesByListener,
  limits: AttachedLimits,
): Steps<readonly Bind[]> {
  const binds = new Map<string, { address: string | undefined; port: number; listeners: Listener[] }>();
  for (const gateway of gateways) {
    const { addresses, listeners: own, sets } = gateway;
    const rules = new SharedRules(gateway);
    const listeners = [...own, ...sets.flatMap((set) => set.listeners)];
    for (const state of listeners.filter(({ isProgrammed }) => isProgrammed)) {
      const listener = yield* buildListener(state, routes, limits, rules);
      for (const address of addresses) {
        const { port } = state.listener;
        const key = `${address ?? ""} ${port}`;
        const bind = binds.get(key) ?? { address, port, listeners: [] };
        bind.listeners.push(listener);
        binds.set(key, bind);
      }
    }
  }
  return [...binds.values()]
    .sort((a, b) => compareText(a.address ?? "", b.address ?? "") || a.port - b.port)
    .map(({ address, port, listeners }) => ({ ...(address === undefined ? {} : { address }), port, listeners }));
}

/** Returns the backends of all served rules and the services of policies, by their keys in sorted order. */
export function* collectBackends(
  gateways: ReadonlyMap<string, GatewayState>,
  routes: readonly RouteState[],
  policies: readonly PolicyState[],
): Steps<Readonly<Record<string, Backend>>> {
  const byKey = new Map<string, Backend>();
  const add = (backend: Backend) => byKey.set(backend.key, backend);
  for (const { global } of policies) if (global?.service !== undefined) add(global.service);
  yield* eachObject(routes, routeOf, ({ parents, rules }) => {
    const attachments = parents.flatMap((parent) => parent.attachments);
    const callers = new Set(attachments.flatMap(({ listener }) => gateways.get(nameKey(listener.gateway)) ?? []));
    const named = new Map(rules.flatMap((rule) => rule.backends.map((backend) => [backend.key, backend])));
    for (const caller of callers) {
      for (const backend of named.values()) add(backendFor(caller, backend, named.values()));
    }
  });
  return Object.fromEntries([...byKey].sort(([a], [b]) => compareText(a, b)));
}

function* buildListener(
  state: ListenerState,
  routes: RoutesByListener,
  limits: AttachedLimits,
  rules: SharedRules,
): Steps<Listener> {
  const { gateway, listener, key, tls } = state;
  const attached = routes.get(key) ?? [];
  const { namespace, name } = gateway.metadata;
  return {
    key,
    gateway: { namespace, name },
    name: listener.name,
    protocol: tls === undefined ? "HTTP" : "HTTPS",
    ...(tls !== undefined && { tls }),
    ...(listener.hostname === undefined ? {} : { hostname: listener.hostname }),
    routes: yield* eachObject(
      attached,
      ({ state: { route } }) => route,
      (each) => buildRoute(each, limits, rules),
    ),
  };
}

function buildRoute(
  { state, attachment: { listener, hostnames } }: AttachedRoute,
  limits: AttachedLimits,
  sharedRules: SharedRules,
): Route {
  const { route } = state;
  const { namespace, name, creationTimestamp } = route.metadata;
  const routeName = nameKey(route);
  const targetOf = (rule?: string) => targetKey(route.kind, routeName, rule);
  const gatewayName = nameKey(listener.gateway);
  const limitsAt = (target: string) => limits.at(listener.gateway, target);
  const shared = [
    limitsAt(targetOf()),
    // A listener of a ListenerSet may have the name of one of the Gateway.
    listener.owner === listener.gateway
      ? limitsAt(targetKey("Gateway", gatewayName, listener.listener.name))
      : noLimits,
    limitsAt(targetKey("Gateway", gatewayName)),
    limits.ofAnyRoute(namespace),
  ];
  return {
    key: keyOfRoute(route),
    namespace,
    name,
    hostnames,
    // Always in UTC and with milliseconds, so that the order of the texts is that of the times.
    ...(creationTimestamp === undefined ? {} : { creationTimestamp: new Date(creationTimestamp).toISOString() }),
    rules: sharedRules.of(state, shared, (rule) => limitsAt(targetOf(rule))),
  };
}

/**
 * Rules with their limits, at the listeners of one Gateway. Listeners with the same limits for a route share a list of rules,
 * and rules with the same limits share a list of limits, so that a route at 64 listeners takes the memory of one.
 */
class SharedRules {
  readonly #caller: GatewayState;
  /** By route, then by the limits that apply to all of its rules. */
  readonly #known = new Map<
    RouteState,
    { readonly shared: readonly Limits[]; readonly rules: readonly RouteRule[] }[]
  >();

  constructor(caller: GatewayState) {
    this.#caller = caller;
  }

  /** @param limitsOf the limits of a rule by its name. */
  of(state: RouteState, shared: readonly Limits[], limitsOf: (rule: string) => Limits): readonly RouteRule[] {
    const known = this.#known.get(state) ?? [];
    this.#known.set(state, known);
    const same = known.find((each) => each.shared.every((limits, at) => limits === shared[at]));
    if (same !== undefined) return same.rules;
    const ofAll = joinLimits([noLimits, ...shared]);
    const rules = state.rules.map((each): RouteRule => {
      const rule = ruleFor(this.#caller, each.rule, each.backends);
      // Requests that always get 500 must not consume a limit.
      if (!isServed(each)) return { ...rule, limits: [] };
      const own = rule.name === undefined ? noLimits : limitsOf(rule.name);
      return { ...rule, ...(own === noLimits ? ofAll : joinLimits([own, ...shared])) };
    });
    known.push({ shared, rules });
    return rules;
  }
}

function joinLimits(
  all: readonly Limits[],
): Pick<RouteRule, "authentication" | "limits" | "globalLimits" | "refusedPolicies"> {
  const authentication = all.toReversed().flatMap((limits) => limits.authentication);
  const globalLimits = all.flatMap(({ global }) => global);
  const refusedPolicies = [...new Set(all.flatMap(({ closedBy }) => closedBy))];
  return {
    ...(authentication.length > 0 && { authentication }),
    limits: all.flatMap(({ local }) => local),
    ...(globalLimits.length > 0 && { globalLimits }),
    ...(refusedPolicies.length > 0 && { refusedPolicies }),
  };
}
