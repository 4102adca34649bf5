/** Builds the snapshot of the data path from the resolved resources: binds, listeners, routes, rules with limits. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { AnyRoute } from "../../api/resource.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import type { Backend, Bind, Listener, Route, RouteRule, StreamListener, StreamRoute } from "../../ir/snapshot.ts";
import { type AttachedLimits, type Limits, noLimits } from "../policy/attached-limits.ts";
import { eachObject, eachPage } from "../each-object.ts";
import { backendFor, type Caller, refsFor, ruleFor } from "../gateway/gateway-client-certificate.ts";
import type { GatewayState } from "../gateway/gateways.ts";
import type { ListenerState } from "./listeners.ts";
import { compareText, nameKey } from "../index/object-names.ts";
import { joined, type Pages, sortedBy } from "@gatewayproxy/runtime/lists";
import {
  hasSameItems,
  keepingEqual,
  KnownValues,
  memoised,
  memoisedInSteps,
  memoisedWith,
  sameList,
} from "@gatewayproxy/runtime/memoised";
import { type PolicyState, targetKey } from "../policy/policies.ts";
import type { Attachment } from "../route/attachment.ts";
import { isServed } from "../route/rules.ts";
import {
  type AnyRouteState,
  type AttachedRoute,
  type AttachedStream,
  keyOfRoute,
  type ListenerRoutes,
  routeOf,
  type RoutesByListener,
  type RouteState,
  type StreamsByListener,
} from "../route/routes.ts";

/**
 * Returns a bind per socket address, sorted by address (none first) and port. Gateways with the same address share it.
 */
export function* buildBinds(
  gateways: Iterable<GatewayState>,
  routes: ListenerRoutes,
  limits: AttachedLimits,
): Steps<readonly Bind[]> {
  const binds = new Map<string, OpenBind>();
  for (const gateway of gateways) {
    const { addresses, listeners: own, sets } = gateway;
    const rules = new SharedRules(gateway.caller);
    const listeners = [...own, ...sets.flatMap((set) => set.listeners)];
    for (const state of listeners.filter(({ isProgrammed }) => isProgrammed)) {
      const { port, protocol } = state.listener;
      const transport = protocol === "UDP" ? protocol : undefined;
      const stream = isStreamProtocol(protocol)
        ? yield* buildStreamListener(state, protocol, routes.streams, limits, gateway.caller)
        : undefined;
      const listener = stream === undefined ? yield* buildListener(state, routes.requests, limits, rules) : undefined;
      for (const address of addresses) {
        const key = `${address ?? ""} ${port} ${transport ?? ""}`;
        const bind = binds.get(key) ?? { address, port, transport, listeners: [], streams: [] };
        if (listener !== undefined) bind.listeners.push(listener);
        if (stream !== undefined) bind.streams.push(stream);
        binds.set(key, bind);
      }
    }
  }
  return [...binds.values()].sort(compareBinds).map(({ address, port, transport, listeners, streams }) => ({
    ...(address === undefined ? {} : { address }),
    port,
    ...(transport === undefined ? {} : { transport }),
    listeners,
    ...(streams.length > 0 && { streams }),
  }));
}

interface OpenBind {
  readonly address: string | undefined;
  readonly port: number;
  readonly transport: "UDP" | undefined;
  readonly listeners: Listener[];
  readonly streams: StreamListener[];
}

function compareBinds(a: OpenBind, b: OpenBind): number {
  return (
    compareText(a.address ?? "", b.address ?? "") ||
    a.port - b.port ||
    compareText(a.transport ?? "", b.transport ?? "")
  );
}

function isStreamProtocol(protocol: string): protocol is StreamListener["protocol"] {
  return protocol === "TLS" || protocol === "TCP" || protocol === "UDP";
}

/** Returns the backends of all served rules and the services of policies, sorted by their keys. */
export function* collectBackends(
  gateways: ReadonlyMap<string, GatewayState>,
  routes: Pages<AnyRouteState>,
  policies: readonly PolicyState[],
): Steps<readonly Backend[]> {
  const services = policies.flatMap(({ global }) => global?.service ?? []);
  const pages = yield* eachPage(routes, function* (page): Steps<readonly Backend[]> {
    const callers = callersIn(page).flatMap((name) => gateways.get(name)?.caller ?? []);
    return sameList(yield* backendsIn(page, ...callers));
  });
  return eachOnce(sameList(pages), sameList(services));
}

/** Returns the backends of pages, and services of policies, sorted by their keys. */
const eachOnce = memoisedWith((pages: Pages<Backend>, services: readonly Backend[]) => {
  const byKey = new Map(services.map((backend) => [backend.key, backend]));
  for (const page of pages) for (const backend of page) byKey.set(backend.key, backend);
  return sameList(sortedByKey([...byKey.values()]));
});

const sortedByKey = sortedBy<Backend>((a, b) => compareText(a.key, b.key));

/** The Gateways that serve routes of a page, as `namespace/name`. */
const callersIn = memoised((page: readonly AnyRouteState[]): readonly string[] => [
  ...new Set(page.flatMap((state) => [...callersOf(state)])),
]);

/** The backends of a page of routes, as each of the Gateways calls those of its routes. */
const backendsIn = memoisedInSteps(function* (
  page: readonly AnyRouteState[],
  ...callers: readonly Caller[]
): Steps<readonly Backend[]> {
  const backends = yield* eachObject(page, routeOf, (state) => {
    const named = backendsOf(state);
    const own = callersOf(state);
    const ofRoute = callers.filter(({ gateway }) => own.has(nameKey(gateway)));
    return ofRoute.flatMap((caller) => named.map((backend) => backendFor(caller, backend, named)));
  });
  return [...new Set(backends.flat())];
});

/** The Gateways that serve a route, as `namespace/name`. */
const callersOf = memoised(({ parents }: AnyRouteState): ReadonlySet<string> => {
  const attachments = parents.flatMap((parent) => parent.attachments);
  return new Set(attachments.map(({ listener }) => nameKey(listener.gateway)));
});

/** The backends of a route, each once. */
const backendsOf = memoised((state: AnyRouteState): readonly Backend[] => {
  const rules: AnyRouteState["rules"] = state.rules;
  return [...new Map(rules.flatMap(({ backends }) => backends.map((backend) => [backend.key, backend]))).values()];
});

function* buildListener(
  state: ListenerState,
  routes: RoutesByListener,
  limits: AttachedLimits,
  rules: SharedRules,
): Steps<Listener> {
  const { gateway, listener, key, tls } = state;
  const pages = yield* eachPage(routes.get(key) ?? [], (page) => routesIn(page, limits, rules));
  const { namespace, name } = gateway.metadata;
  return {
    key,
    gateway: { namespace, name },
    name: listener.name,
    protocol: tls === undefined ? "HTTP" : "HTTPS",
    ...(tls !== undefined && { tls }),
    ...(listener.hostname === undefined ? {} : { hostname: listener.hostname }),
    routes: joined(pages),
  };
}

function* buildStreamListener(
  state: ListenerState,
  protocol: StreamListener["protocol"],
  routes: StreamsByListener,
  limits: AttachedLimits,
  caller: Caller,
): Steps<StreamListener> {
  const { gateway, listener, key, tls } = state;
  const { namespace, name } = gateway.metadata;
  return {
    key,
    gateway: { namespace, name },
    name: listener.name,
    protocol,
    ...(tls !== undefined && { tls }),
    ...(listener.hostname === undefined ? {} : { hostname: listener.hostname }),
    routes: yield* eachObject(
      (routes.get(key) ?? []).flat(),
      ({ state: { route } }) => route,
      (each) => buildStreamRoute(each, limits, caller),
    ),
  };
}

function buildStreamRoute(
  { state: { route, rules }, attachment: { listener, hostnames } }: AttachedStream,
  limits: AttachedLimits,
  caller: Caller,
): StreamRoute {
  const { namespace, name, creationTimestamp } = route.metadata;
  const [first] = rules;
  const rule = first?.rule ?? { key: keyOfRoute(route), backendRefs: [] };
  const shared = sharedLimits(limits, route, listener);
  const own = rule.name === undefined ? noLimits : limits.at(listener.gateway, targetOf(route, rule.name));
  const refusedPolicies = closedByAny([own, ...shared]);
  return {
    key: keyOfRoute(route),
    namespace,
    name,
    hostnames,
    ...ageOf(creationTimestamp),
    rule: rule.key,
    backendRefs: refsFor(caller, rule.backendRefs, first?.backends ?? []),
    limits: [own, ...shared].flatMap(({ local }) => local.filter(countsConnections)),
    ...(refusedPolicies.length > 0 && { refusedPolicies }),
  };
}

/** The limits of a route, of its listener, of its Gateway, and of the namespaces of both. */
function sharedLimits(limits: AttachedLimits, route: AnyRoute, listener: ListenerState): readonly Limits[] {
  return [
    limits.at(listener.gateway, targetOf(route)),
    ...limitsOfAll(limits, listener),
    limits.ofNamespace(route.metadata.namespace),
  ];
}

/** The limits of all routes of a listener: its own, those of its Gateway, and those of the namespace of the Gateway. */
function limitsOfAll(limits: AttachedLimits, { gateway, owner, listener }: ListenerState): readonly Limits[] {
  const name = nameKey(gateway);
  return [
    // A listener of a ListenerSet may have the name of one of the Gateway.
    owner === gateway ? limits.at(gateway, targetKey("Gateway", name, listener.name)) : noLimits,
    limits.at(gateway, targetKey("Gateway", name)),
    limits.ofNamespace(gateway.metadata.namespace),
  ];
}

function targetOf(route: AnyRoute, rule?: string): string {
  return targetKey(route.kind, nameKey(route), rule);
}

/** Always in UTC and with milliseconds, so that the order of the texts is that of the times. */
function ageOf(creationTimestamp: string | undefined): Pick<Route, "creationTimestamp"> {
  return creationTimestamp === undefined ? {} : { creationTimestamp: new Date(creationTimestamp).toISOString() };
}

/** The last routes of each page at a listener. */
const knownRoutes = new KnownValues<readonly AttachedRoute[], readonly Route[]>();

/** Returns the routes of a page at a listener: the same list while nothing changes on which it depends. */
function routesIn(page: readonly AttachedRoute[], limits: AttachedLimits, rules: SharedRules): Steps<readonly Route[]> {
  const inputs: unknown[] = [rules.caller];
  const [first] = page;
  if (first !== undefined && !limits.isEmpty) {
    const { listener } = first.attachment;
    inputs.push(...limitsOfAll(limits, listener));
    const { namespaces, targets } = targetsIn(page);
    for (const namespace of namespaces) inputs.push(limits.ofNamespace(namespace));
    for (const target of targets) inputs.push(limits.at(listener.gateway, target));
  }
  return knownRoutes.get(page, inputs, function* () {
    const routes = yield* eachObject(
      page,
      ({ state: { route } }) => route,
      ({ state, attachment }) => routeAt(attachment, state.route, rules.of(state, attachment, limits)),
    );
    return sameList(routes);
  });
}

/** The namespaces of the routes of a page, and the routes and rules as targets of policies. */
const targetsIn = memoised((page: readonly AttachedRoute[]) => ({
  namespaces: [...new Set(page.map(({ state: { route } }) => route.metadata.namespace))],
  targets: page.flatMap(({ state: { route, rules } }) => [
    targetOf(route),
    ...rules.flatMap(({ rule: { name } }) => (name === undefined ? [] : [targetOf(route, name)])),
  ]),
}));

/** Returns the same object while nothing changes on which it depends. */
const routeAt = memoisedWith(({ hostnames }: Attachment, route: RouteState["route"], rules: Route["rules"]): Route => {
  const { namespace, name, creationTimestamp } = route.metadata;
  return { key: keyOfRoute(route), namespace, name, hostnames, ...ageOf(creationTimestamp), rules };
});

/**
 * Rules with their limits, at the listeners of one Gateway. Listeners with the same limits for a route share a list of
 * rules, and rules with the same limits share a list of limits, so that a route at 64 listeners takes the memory of
 * one.
 */
class SharedRules {
  readonly caller: Caller;
  /** By route, then by the limits that apply to all of its rules. */
  readonly #known = new Map<
    RouteState,
    { readonly shared: readonly Limits[]; readonly rules: readonly RouteRule[] }[]
  >();

  constructor(caller: Caller) {
    this.caller = caller;
  }

  /** Returns the rules of a route at a listener. */
  of(state: RouteState, attachment: Attachment, limits: AttachedLimits): readonly RouteRule[] {
    const { listener } = attachment;
    const shared = limits.isEmpty ? noSharedLimits : sharedLimits(limits, state.route, listener);
    const known = this.#known.get(state) ?? [];
    this.#known.set(state, known);
    const same = known.find((each) => hasSameItems(each.shared, shared));
    if (same !== undefined) return same.rules;
    const own = state.rules.map(({ rule: { name } }) =>
      name === undefined || limits.isEmpty ? noLimits : limits.at(listener.gateway, targetOf(state.route, name)),
    );
    const rules = rulesAt(attachment, state.rules, this.caller, shared.length, ...shared, ...own);
    known.push({ shared, rules });
    return rules;
  }
}

/** `sharedLimits` if there are no policies. */
const noSharedLimits: readonly Limits[] = [noLimits];

/**
 * Returns the rules of a route at a listener: the same list while nothing changes on which it depends.
 *
 * @param limits first those that apply to all rules, then those of each rule.
 */
const rulesAt = memoisedWith(
  (
    attachment: Attachment,
    states: RouteState["rules"],
    caller: Caller,
    sharedCount: number,
    ...limits: readonly Limits[]
  ): readonly RouteRule[] => {
    const shared = limits.slice(0, sharedCount);
    const ofAll = joinLimits([noLimits, ...shared]);
    const rules = states.map((each, index): RouteRule => {
      const rule = ruleFor(caller, each.rule, each.backends);
      // Requests that always get 500 must not consume a limit.
      if (!isServed(each)) return { ...rule, limits: [] };
      const own = limits[sharedCount + index] ?? noLimits;
      return { ...rule, ...(own === noLimits ? ofAll : joinLimits([own, ...shared])) };
    });
    // They are equal if an endpoint of their backends changes.
    return keptRules(attachment, rules);
  },
);

const keptRules = keepingEqual<readonly RouteRule[]>();

function joinLimits(
  all: readonly Limits[],
): Pick<RouteRule, "authentication" | "limits" | "globalLimits" | "refusedPolicies"> {
  const authentication = all.toReversed().flatMap((limits) => limits.authentication);
  const globalLimits = all.flatMap(({ global }) => global);
  const refusedPolicies = closedByAny(all);
  return {
    ...(authentication.length > 0 && { authentication }),
    limits: all.flatMap(({ local }) => local.filter((limit) => !countsConnections(limit))),
    ...(globalLimits.length > 0 && { globalLimits }),
    ...(refusedPolicies.length > 0 && { refusedPolicies }),
  };
}

/** Returns the policies that close a target, each once. */
function closedByAny(all: readonly Limits[]): readonly string[] {
  return [...new Set(all.flatMap(({ closedBy }) => closedBy))];
}

/** A policy of a Gateway may have entries for its streams beside those for its requests. */
function countsConnections({ counts }: LocalLimit): boolean {
  return counts === "connections";
}
