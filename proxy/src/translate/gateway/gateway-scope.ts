/**
 * The resources of a cluster that belong to one Gateway: those that a proxy of this Gateway needs, and for which its
 * ServiceAccount has permissions. They exclude ListenerSets and routes that the Gateway does not accept, and referents
 * without permission. They also exclude the parts of resources for other Gateways, so that no condition mentions these.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import type { Backend } from "../../api/backend.ts";
import type { BackendTlsPolicy } from "../../api/backend-tls-policy.ts";
import type { EndpointSlice } from "../../api/endpoint-slice.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { ParentRef } from "../../api/http-route.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import { gatewayGroup, gatewayNameLabel, proxyGroup } from "../../api/names.ts";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import { type AnyRoute, type Resource, type ResourceSet, routesOf } from "../../api/resource.ts";
import type { Service } from "../../api/service.ts";
import { groupedBy, joined, pagesBy } from "@gatewayproxy/runtime/lists";
import {
  hasSameItems,
  keepingEqual,
  KnownValues,
  memoised,
  memoisedWith,
  sameList,
} from "@gatewayproxy/runtime/memoised";
import { routeKey } from "@gatewayproxy/runtime/route-key";
import { matchListeners, type OpenListener } from "../route/attachment.ts";
import { gatewayLabelValue } from "./gateway-label.ts";
import { eachObject, eachPage, itself } from "../each-object.ts";
import { allowsSet } from "../listener/listener-sets.ts";
import type { ListenerOwner, Reference } from "../reference/owner-references.ts";
import { supportedKindsOf } from "../listener/listeners.ts";
import type { AcceptedParents } from "./accepted-parents.ts";
import { namespacesIn } from "../index/namespaces.ts";
import { anyNameIn, compareNames, nameKey } from "../index/object-names.ts";
import { indexResources, prepareIndex } from "../index/resource-index.ts";
import type { IsPermitted } from "../reference/reference-grants.ts";
import {
  crossesNamespaces,
  parentOf,
  permittedReferents,
  referencesOfPolicy,
  referencesOfRoute,
} from "../reference/references.ts";

/** The namespace and name of a Gateway. */
export interface GatewayName {
  readonly namespace: string;
  readonly name: string;
}

/** Never throws. Empty if the Gateway does not exist. */
export function gatewayScope(resources: ResourceSet, gateway: GatewayName): ResourceSet {
  return runToEnd(gatewayScopeInSteps(resources, gateway));
}

/** As `gatewayScope`, in steps. */
export function* gatewayScopeInSteps(resources: ResourceSet, gateway: GatewayName): Steps<ResourceSet> {
  const scopeOf = yield* gatewayScopes(resources);
  return yield* scopeOf(gateway);
}

/** The acceptance of routes and ListenerSets. */
export interface ScopeOptions {
  /**
   * Includes every ListenerSet and route with the Gateway as its parent, since some version of the Gateway could accept
   * it: for a Gateway that the parser rejected. The listeners of a ListenerSet still decide, if they are known.
   * Default: false.
   */
  readonly acceptsAll?: boolean;
  /** The parentRefs that a translation of the resources accepted. Default: routes are compared with listeners here. */
  readonly accepted?: AcceptedParents | undefined;
}

/** Returns the scope of one Gateway. Its steps divide the work. */
export type ScopeOf = (gateway: GatewayName, options?: ScopeOptions) => Steps<ResourceSet>;

/** Returns the scopes of several Gateways. It reads each resource once for all of them. */
export function* gatewayScopes(resources: ResourceSet): Steps<ScopeOf> {
  const index = yield* indexReferrers(resources);
  yield* prepareIndex(resources);
  return (gateway, options = {}) => scopeIn(resources, index, gateway, options);
}

/** Resources by the objects to which they refer. */
interface ScopeIndex {
  readonly setsByParent: ReadonlyMap<string, readonly ListenerSet[]>;
  readonly routesByParent: ReadonlyMap<string, readonly AnyRoute[]>;
  readonly policiesByTarget: ReadonlyMap<string, readonly ProxyPolicy[]>;
  readonly ownServices: ReadonlyMap<string, readonly Service[]>;
  readonly tlsPolicies: ReadonlyMap<string, readonly BackendTlsPolicy[]>;
}

function* indexReferrers(resources: ResourceSet): Steps<ScopeIndex> {
  return {
    setsByParent: yield* setsByParent(resources.ListenerSet),
    routesByParent: yield* routesByParent(routesOf(resources)),
    policiesByTarget: yield* policiesByTarget(resources.ProxyPolicy),
    ownServices: yield* ownServices(resources.Service),
    tlsPolicies: yield* tlsPoliciesByService(resources.BackendTLSPolicy),
  };
}

/**
 * Groups resources by names. An object of which the names cannot be computed does not affect others (`ObjectErrors`).
 */
function byNames<Item extends Resource & Parameters<typeof compareNames>[0]>(
  namesOf: (item: Item) => readonly string[],
): (items: readonly Item[]) => Steps<ReadonlyMap<string, readonly Item[]>> {
  const grouped = groupedBy(namesOf, compareNames);
  return function* (items) {
    try {
      return yield* grouped(items);
    } catch (error) {
      yield* eachObject(items, itself, namesOf);
      throw error;
    }
  };
}

const setsByParent = byNames((set: ListenerSet) => [parentOf(set) ?? ""]);
const routesByParent = byNames((route: AnyRoute) => [...new Set(parentsOf(route).map(({ key }) => key))]);
const policiesByTarget = byNames((policy: ProxyPolicy) => [...new Set(targetsOf(policy))]);
const ownServices = byNames(({ metadata }: Service) => [
  `${metadata.namespace} ${metadata.labels[gatewayNameLabel] ?? ""}`,
]);
const tlsPoliciesByService = byNames(({ metadata, spec }: BackendTlsPolicy) => [
  ...new Set(spec.targetRefs.map(({ name }) => `${metadata.namespace}/${name}`)),
  ...(spec.targetRefs.length === 0 ? [anyNameIn(metadata.namespace)] : []),
]);
const pagesOfRoutes = pagesBy<AnyRoute>(({ kind, metadata }) => routeKey(kind, metadata));

function* scopeIn(
  resources: ResourceSet,
  index: ScopeIndex,
  { namespace, name }: GatewayName,
  { acceptsAll = false, accepted: acceptedParents }: ScopeOptions,
): Steps<ResourceSet> {
  const { labelsOf: labels, isPermitted, gateways, services, backends, slices } = indexResources(resources);
  const key = objectKey({ namespace, name });
  const known = gateways.get(key);
  const gateway = known !== undefined && acceptsAll ? ofUnknownVersion(known) : known;
  const sets = (index.setsByParent.get(key) ?? []).filter(
    (set) => gateway !== undefined && allowsSet(gateway, set, labels),
  );
  const owners = new Map([...(gateway ? [gateway] : []), ...sets].map((owner) => [parentKey(owner), owner]));
  const candidates = pagesOfRoutes(sameList(valuesOf(index.routesByParent, owners.keys())));
  const { referring, scopes, keptUses } = knownPages(gateway ?? nothing);
  const pages = yield* eachPage(candidates, function* (page): Steps<PageScope> {
    const own = parentKeysIn(page).flatMap((parent) => owners.get(parent) ?? []);
    const { routes: named, refs } = yield* referring.get(page, own, () => referringIn(page, own));
    // What the translation has accepted decides, or what the listeners allow.
    const accepted = acceptedParents && acceptedAmong(refs, acceptedParents);
    const permitted = crossesNamespaces(page) ? isPermitted : undefined;
    const deciding = accepted === undefined ? namespacesIn(page).map(labels) : [accepted];
    const inputs = [permitted, acceptsAll, ...own, ...deciding];
    const isAccepted: IsAccepted = (route, { ref, listeners }) =>
      (acceptsAll && listeners.length === 0) ||
      (acceptedParents?.has(ref) ?? matchListeners(route, ref, listeners, labels).kind === "attached");
    return yield* scopes.get(page, inputs, function* () {
      const scope = yield* scopeOfPage(named, isAccepted, isPermitted);
      const [first] = page;
      return first === undefined ? scope : { ...scope, uses: keptUses(first, scope.uses) };
    });
  });
  const routes = joined(pages.map((page) => page.routes));
  const ofRoutes = namesIn(sameList(pages.map(({ uses }) => uses)));
  const targets = new Set([`Gateway ${key}`, anyNameIn(namespace)]);
  for (const route of resources.ProxyPolicy.length === 0 ? [] : routes) {
    for (const target of targetsOfRoute(route)) targets.add(target);
  }
  const policies = yield* eachObject(valuesOf(index.policiesByTarget, targets), itself, (policy) => ({
    policy: ofTargets(policy, targets),
    uses: usesOfReferences(referencesOfPolicy(policy), isPermitted),
  }));
  const others = namesIn(policies.map(({ uses }) => uses));
  const ownServices = index.ownServices.get(`${namespace} ${gatewayLabelValue(name)}`) ?? [];
  // Few names are not those of routes, whose objects are looked up once.
  const otherServices = new Set([...others.services, ...ownServices.map(nameKey)]).difference(ofRoutes.services);
  const allBackends = new Set([...ofRoutes.backends, ...others.backends]);
  return {
    ...resources,
    Gateway: gateway === undefined ? [] : [gateway],
    ListenerSet: sets,
    ...routesByKind(routes),
    ProxyPolicy: policies.map(({ policy }) => policy),
    BackendTLSPolicy: tlsPoliciesOf([...ofRoutes.services, ...otherServices], index),
    Backend: withProviders(allBackends, backends),
    Service: sameList([...servicesNamed(ofRoutes.services, services), ...servicesNamed(otherServices, services)]),
    EndpointSlice: sameList([...slicesNamed(ofRoutes.services, slices), ...slicesNamed(otherServices, slices)]),
  };
}

/** A route with its parentRefs to some owners of listeners. */
interface ReferringRoute {
  readonly route: AnyRoute;
  readonly own: readonly NamedParent[];
}

interface NamedParent {
  readonly ref: ParentRef;
  readonly listeners: readonly OpenListener[];
}

type IsAccepted = (route: AnyRoute, parent: NamedParent) => boolean;

/** The routes of a page that one Gateway accepts, and the objects to which they refer. */
interface PageScope {
  readonly routes: readonly AnyRoute[];
  readonly uses: Uses;
}

const routesByKind = memoised((routes: readonly AnyRoute[]) => ({
  HTTPRoute: routesOfKind(routes, (route) => route.kind === "HTTPRoute"),
  GRPCRoute: routesOfKind(routes, (route) => route.kind === "GRPCRoute"),
  TLSRoute: routesOfKind(routes, (route) => route.kind === "TLSRoute"),
  TCPRoute: routesOfKind(routes, (route) => route.kind === "TCPRoute"),
  UDPRoute: routesOfKind(routes, (route) => route.kind === "UDPRoute"),
}));

/** Returns the list itself if all routes are of the kind. */
function routesOfKind<Route extends AnyRoute>(
  routes: readonly AnyRoute[],
  isOfKind: (route: AnyRoute) => route is Route,
): readonly Route[] {
  return routes.every(isOfKind) ? routes : routes.filter(isOfKind);
}

const servicesNamed = memoisedWith((names: ReadonlySet<string>, services: ReadonlyMap<string, Service>) =>
  [...names].flatMap((name) => services.get(name) ?? []),
);

const slicesNamed = memoisedWith((names: ReadonlySet<string>, slices: ReadonlyMap<string, readonly EndpointSlice[]>) =>
  [...names].flatMap((name) => slices.get(name) ?? []),
);

/** The names to which some objects refer. */
interface UsedNames {
  readonly services: ReadonlySet<string>;
  readonly backends: ReadonlySet<string>;
}

const namesIn = memoised(
  (all: readonly Uses[]): UsedNames => ({
    services: new Set(all.flatMap(({ services }) => services)),
    backends: new Set(all.flatMap(({ backends }) => backends)),
  }),
);

/** Returns the policies of these Services, and those that may have any Service of their namespaces as a target. */
function tlsPoliciesOf(services: readonly string[], { tlsPolicies }: ScopeIndex): readonly BackendTlsPolicy[] {
  if (tlsPolicies.size === 0) return [];
  const namespaces = new Set(services.map((name) => name.slice(0, name.indexOf("/"))));
  return valuesOf(tlsPolicies, [...services, ...Array.from(namespaces, anyNameIn)]);
}

/** The routes of a page, with their references to a Gateway and its ListenerSets. */
interface ReferringRoutes {
  readonly routes: readonly ReferringRoute[];
  /** All references, in the order of the routes. */
  readonly refs: readonly ParentRef[];
}

/** The last results of each page of routes for one Gateway. */
const knownPages = memoised((_gateway: object) => ({
  referring: new KnownValues<readonly AnyRoute[], ReferringRoutes>(),
  scopes: new KnownValues<readonly AnyRoute[], PageScope>(),
  /** By the first route of a page. Most edits of a route keep the names that the page uses. */
  keptUses: keepingEqual<Uses>(),
}));

/** In place of a Gateway that does not exist. */
const nothing = {};

/** The parents of the routes of a page, each once, as `Gateway namespace/name`. */
const parentKeysIn = memoised((page: readonly AnyRoute[]): readonly string[] => [
  ...new Set(page.flatMap((route) => parentsOf(route).map(({ key }) => key))),
]);

/** Which references of a page are accepted, in the last version for which that was asked. */
const knownAccepted = new WeakMap<
  readonly ParentRef[],
  { readonly version: AcceptedParents; readonly flags: readonly boolean[] }
>();

/** Returns whether each reference of a page is accepted; the same list for the same flags. */
function acceptedAmong(refs: readonly ParentRef[], version: AcceptedParents): readonly boolean[] {
  const known = knownAccepted.get(refs);
  const isKept = known !== undefined && version.isSameFor(refs, known.version);
  const current = isKept ? known.flags : refs.map((ref) => version.has(ref));
  const flags = known !== undefined && hasSameItems(known.flags, current) ? known.flags : current;
  knownAccepted.set(refs, { version, flags });
  return flags;
}

function* referringIn(page: readonly AnyRoute[], owners: readonly ListenerOwner[]): Steps<ReferringRoutes> {
  const parents = new Map(owners.map((owner) => [parentKey(owner), listenersOf(owner)]));
  const routes = yield* eachObject(page, itself, (route) => ({
    route,
    own: parentsOf(route).flatMap(({ key, ref }) => {
      const listeners = parents.get(key);
      return listeners === undefined ? [] : [{ ref, listeners }];
    }),
  }));
  return { routes, refs: routes.flatMap(({ own }) => own.map(({ ref }) => ref)) };
}

function* scopeOfPage(
  named: readonly ReferringRoute[],
  isAccepted: IsAccepted,
  isPermitted: IsPermitted,
): Steps<PageScope> {
  const accepted = yield* eachObject(
    named,
    ({ route }) => route,
    ({ route, own }) => {
      if (!own.some((parent) => isAccepted(route, parent))) return [];
      const uses = usesOfReferences(referencesOfRoute(route), isPermitted);
      return [{ uses, route: withParents(route, ...own.map(({ ref }) => ref)) }];
    },
  );
  const all = accepted.flat();
  return {
    routes: all.map(({ route }) => route),
    uses: {
      services: [...new Set(all.flatMap(({ uses }) => uses.services))],
      backends: [...new Set(all.flatMap(({ uses }) => uses.backends))],
    },
  };
}

/** The targets of policies that concern a route. */
const targetsOfRoute = memoised((route: AnyRoute): readonly string[] => [
  `${route.kind} ${nameKey(route)}`,
  anyNameIn(route.metadata.namespace),
]);

/** Returns the referents, each as `namespace/name`. */
interface Uses {
  readonly services: readonly string[];
  readonly backends: readonly string[];
}

/** Returns Backends by `namespace/name`, with the Backends of their lists of providers, each once. */
function withProviders(names: ReadonlySet<string>, known: ReadonlyMap<string, Backend>): readonly Backend[] {
  const all = new Set(names);
  for (const name of names) {
    const backend = known.get(name);
    for (const { backendRef } of backend?.spec.ai?.providers ?? []) {
      all.add(objectKey({ namespace: backend?.metadata.namespace ?? "", name: backendRef.name }));
    }
  }
  return [...all].flatMap((name) => known.get(name) ?? []);
}

function usesOfReferences(references: readonly Reference[], isPermitted: IsPermitted): Uses {
  const referents = permittedReferents(references, isPermitted);
  const namesOf = (group: string, kind: string) =>
    referents.flatMap((to) => (to.group === group && to.kind === kind ? [objectKey(to)] : []));
  return { services: namesOf("", "Service"), backends: namesOf(proxyGroup, "Backend") };
}

/** Returns the values of any of the keys, each once. */
function valuesOf<T>(groups: ReadonlyMap<string, readonly T[]>, keys: Iterable<string>): readonly T[] {
  if (groups.size === 0) return [];
  const [first = [], ...others] = [...keys].flatMap((key) => {
    const group = groups.get(key);
    return group === undefined ? [] : [group];
  });
  return others.length === 0 ? first : [...new Set([...first, ...others.flat()])];
}

/**
 * Returns the number of ready replicas of the proxy, from the Gateway's own Service; at least 1, which is this replica.
 */
export function readyReplicas(resources: ResourceSet, gateway: GatewayName): number {
  const { slices } = indexResources(resources);
  const own = ownServicesOf(resources.Service, gateway.namespace, gateway.name);
  // Without arguments of `Math.max`, since any number of Services in the namespace can have the label.
  return own.reduce((most, service) => {
    const ready = (slices.get(nameKey(service)) ?? []).flatMap(({ endpoints }) =>
      endpoints.filter(({ state }) => state === "ready"),
    );
    // A pod with two address families is in two slices.
    return Math.max(most, new Set(ready.map(({ name }) => name)).size);
  }, 1);
}

const ownServicesOf = memoisedWith((services: readonly Service[], namespace: string, name: string) => {
  const label = gatewayLabelValue(name);
  return services.filter(
    ({ metadata }) => metadata.namespace === namespace && metadata.labels[gatewayNameLabel] === label,
  );
});

/** Returns the parents of a route, as `Gateway namespace/name`. */
const parentsOf = memoised(({ spec, metadata }: AnyRoute) => {
  return spec.parentRefs.flatMap((ref) => {
    const { group, kind, namespace = metadata.namespace, name } = ref;
    return group === gatewayGroup ? [{ key: `${kind} ${namespace}/${name}`, ref }] : [];
  });
});

function parentKey({ kind, metadata }: ListenerOwner): string {
  return `${kind} ${objectKey(metadata)}`;
}

const listenersOf = memoised((owner: ListenerOwner): readonly OpenListener[] =>
  owner.spec.listeners.map((listener) => ({ listener, owner, supportedKinds: supportedKindsOf(listener) })),
);

/** Returns a version without the listeners that are unknown, which allows all ListenerSets. */
function ofUnknownVersion(gateway: Gateway): Gateway {
  return { ...gateway, spec: { ...gateway.spec, listeners: [], allowedListeners: { namespaces: { from: "All" } } } };
}

/** Returns the route with only these parents: the same route for the same parents. */
const withParents = memoisedWith(
  (route: AnyRoute, ...parentRefs: readonly ParentRef[]): AnyRoute =>
    parentRefs.length === route.spec.parentRefs.length
      ? route
      : // The compiler does not relate a kind to its spec.
        ({ ...route, spec: { ...route.spec, parentRefs } } as AnyRoute),
);

function targetsOf({ spec, metadata }: ProxyPolicy): readonly string[] {
  // For a rejected policy without targets.
  if (spec.targetRefs.length === 0) return [anyNameIn(metadata.namespace)];
  return spec.targetRefs.map(({ kind, name }) => `${kind} ${metadata.namespace}/${name}`);
}

/** Returns the policy with only these targets. */
function ofTargets(policy: ProxyPolicy, targets: ReadonlySet<string>): ProxyPolicy {
  const { spec } = policy;
  const keys = targetsOf(policy);
  const own = spec.targetRefs.filter((_, index) => targets.has(keys[index] ?? ""));
  return own.length === spec.targetRefs.length ? policy : withTargets(policy, ...own);
}

/** Returns the same policy for the same targets. */
const withTargets = memoisedWith(
  (policy: ProxyPolicy, ...targetRefs: ProxyPolicy["spec"]["targetRefs"]): ProxyPolicy => ({
    ...policy,
    spec: { ...policy.spec, targetRefs },
  }),
);
