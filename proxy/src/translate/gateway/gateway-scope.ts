/**
 * The resources of a cluster that belong to one Gateway: those that a proxy of this Gateway needs, and for which its
 * ServiceAccount has permissions. They exclude ListenerSets and routes that the Gateway does not accept, and referents
 * without permission. They also exclude the parts of resources for other Gateways, so that no condition mentions these.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import type { Backend } from "../../api/backend.ts";
import type { BackendTlsPolicy } from "../../api/backend-tls-policy.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { ParentRef } from "../../api/http-route.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import { gatewayGroup, proxyGroup } from "../../api/names.ts";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import { type AnyRoute, type Resource, type ResourceSet, routesOf } from "../../api/resource.ts";
import type { Service } from "../../api/service.ts";
import { memoised, memoisedWith, sameList } from "@gatewayproxy/runtime/memoised";
import { matchListeners, type OpenListener } from "../route/attachment.ts";
import { gatewayLabelValue, gatewayNameLabel } from "./gateway-label.ts";
import { eachObject, itself } from "../each-object.ts";
import { allowsSet } from "../listener/listener-sets.ts";
import type { ListenerOwner, Reference } from "../reference/owner-references.ts";
import { supportedKindsOf } from "../listener/listeners.ts";
import type { NamespaceLabels } from "../index/namespaces.ts";
import { nameKey } from "../index/object-names.ts";
import { indexResources } from "../index/resource-index.ts";
import type { IsPermitted } from "../reference/reference-grants.ts";
import { parentOf, permittedReferents, referencesOfPolicy, referencesOfRoute } from "../reference/references.ts";

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
   * Includes every ListenerSet and route with the Gateway as its parent, since some version of the Gateway could accept it:
   * for a Gateway that the parser rejected. The listeners of a ListenerSet still decide, if they are known. Default: false.
   */
  readonly acceptsAll?: boolean;
  /** The parentRefs that a translation of the resources accepted. Default: routes are compared with listeners here. */
  readonly accepted?: ReadonlySet<ParentRef> | undefined;
}

/** Returns the scope of one Gateway. Its steps divide the work. */
export type ScopeOf = (gateway: GatewayName, options?: ScopeOptions) => Steps<ResourceSet>;

/** Returns the scopes of several Gateways. It reads each resource once for all of them. */
export function* gatewayScopes(resources: ResourceSet): Steps<ScopeOf> {
  const index = yield* indexReferrers(resources);
  return (gateway, options = {}) => scopeIn(resources, index, gateway, options);
}

type ScopeIndex = ReturnType<typeof indexReferrers> extends Steps<infer Value> ? Value : never;

/** Returns the resources by the objects to which they refer. */
function* indexReferrers(resources: ResourceSet) {
  const setsByParent = yield* groupByKeys(resources.ListenerSet, setKeys);
  const routesByParent = yield* groupByKeys(routesOf(resources), routeKeys);
  const policiesByTarget = yield* groupByKeys(resources.ProxyPolicy, targetsOf);
  const ownServices = yield* groupByKeys(resources.Service, serviceKeys);
  const tlsPolicies = yield* groupByKeys(resources.BackendTLSPolicy, tlsPolicyKeys);
  return { setsByParent, routesByParent, policiesByTarget, ownServices, tlsPolicies };
}

const setKeys = (set: ListenerSet) => [parentOf(set)];
const routeKeys = memoised((route: AnyRoute) => [...new Set(parentsOf(route).map(({ key }) => key))]);
const serviceKeys = memoised(({ metadata }: Service) => [
  `${metadata.namespace} ${metadata.labels[gatewayNameLabel] ?? ""}`,
]);
const tlsPolicyKeys = ({ metadata, spec }: BackendTlsPolicy) =>
  spec.targetRefs.map(({ name }) => `${metadata.namespace}/${name}`);

const usesOf = memoisedWith((route: AnyRoute, isPermitted: IsPermitted) =>
  usesOfReferences(referencesOfRoute(route), isPermitted),
);

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
  const parents = new Map(
    [...(gateway ? [gateway] : []), ...sets].map((owner) => [parentKey(owner), listenersOf(owner)]),
  );
  const used = { services: new Set<string>(), backends: new Set<string>() };
  const use = (uses: Uses) => {
    for (const service of uses.services) used.services.add(service);
    for (const backend of uses.backends) used.backends.add(backend);
  };
  const candidates = valuesOf(index.routesByParent, parents.keys());
  const isAccepted = (route: AnyRoute, ref: ParentRef, listeners: readonly OpenListener[]): boolean =>
    (acceptsAll && listeners.length === 0) ||
    (acceptedParents?.has(ref) ?? isAttachable(ref, route, listeners, labels));
  const accepted = yield* eachObject(candidates, itself, (whole) => {
    const routes = acceptedBy(parents, whole, isAccepted);
    if (routes.length > 0) use(usesOf(whole, isPermitted));
    return routes;
  });
  const routes = accepted.flat();
  const targets = new Set([`Gateway ${key}`]);
  for (const route of resources.ProxyPolicy.length === 0 ? [] : routes) {
    for (const target of targetsOfRoute(route)) targets.add(target);
  }
  const policies = yield* eachObject(valuesOf(index.policiesByTarget, targets), itself, (policy) => {
    use(usesOfReferences(referencesOfPolicy(policy), isPermitted));
    return ofTargets(policy, targets);
  });
  for (const service of index.ownServices.get(`${namespace} ${gatewayLabelValue(name)}`) ?? []) {
    used.services.add(nameKey(service));
  }
  return {
    ...resources,
    Gateway: gateway === undefined ? [] : [gateway],
    ListenerSet: sets,
    HTTPRoute: routes.filter((route) => route.kind === "HTTPRoute"),
    GRPCRoute: routes.filter((route) => route.kind === "GRPCRoute"),
    TLSRoute: routes.filter((route) => route.kind === "TLSRoute"),
    TCPRoute: routes.filter((route) => route.kind === "TCPRoute"),
    UDPRoute: routes.filter((route) => route.kind === "UDPRoute"),
    ProxyPolicy: policies,
    BackendTLSPolicy: valuesOf(index.tlsPolicies, used.services),
    Backend: withProviders(used.backends, backends),
    Service: [...used.services].flatMap((service) => services.get(service) ?? []),
    EndpointSlice: valuesOf(slices, used.services),
  };
}

/** Whether a route may attach to any of the listeners. */
const isAttachable = memoisedWith(
  (ref: ParentRef, route: AnyRoute, listeners: readonly OpenListener[], labels: NamespaceLabels): boolean =>
    matchListeners(route, ref, listeners, labels).kind === "attached",
);

/** The targets of policies that concern a route. */
const targetsOfRoute = memoised((route: AnyRoute): readonly string[] => [
  `${route.kind} ${nameKey(route)}`,
  anyRouteOf(route.metadata.namespace),
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

type Groups<T> = ReadonlyMap<string | undefined, readonly T[]>;

/** The last groups of a list, by the function of its keys. */
const knownGroups = memoised<readonly object[], Map<unknown, unknown>>(() => new Map());

/** Returns the values by each of their keys, in their order; the same groups for the same list and function. */
function* groupByKeys<T extends Resource>(
  values: readonly T[],
  keysOf: (value: T) => readonly (string | undefined)[],
): Steps<Groups<T>> {
  const known = knownGroups(sameList(values));
  // The groups of a function have its values.
  const before = known.get(keysOf) as Groups<T> | undefined;
  if (before !== undefined) return before;
  const groups = new Map<string | undefined, T[]>();
  yield* eachObject(values, itself, (value) => {
    for (const key of new Set(keysOf(value))) {
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [value]);
      else group.push(value);
    }
  });
  known.set(keysOf, groups);
  return groups;
}

/** Returns the values of any of the keys, each once. */
function valuesOf<T>(groups: ReadonlyMap<string | undefined, readonly T[]>, keys: Iterable<string>): readonly T[] {
  return [...new Set([...keys].flatMap((key) => groups.get(key) ?? []))];
}

/** Returns the number of ready replicas of the proxy, from the Gateway's own Service; at least 1, which is this replica. */
export function readyReplicas(resources: ResourceSet, gateway: GatewayName): number {
  const { slices } = indexResources(resources);
  const own = resources.Service.filter((service) => isOwnService(service, gateway));
  // Without arguments of `Math.max`, since any number of Services in the namespace can have the label.
  return own.reduce((most, service) => {
    const ready = (slices.get(nameKey(service)) ?? []).flatMap(({ endpoints }) =>
      endpoints.filter(({ state }) => state === "ready"),
    );
    // A pod with two address families is in two slices.
    return Math.max(most, new Set(ready.map(({ name }) => name)).size);
  }, 1);
}

function isOwnService({ metadata }: Service, { namespace, name }: GatewayName): boolean {
  return metadata.namespace === namespace && metadata.labels[gatewayNameLabel] === gatewayLabelValue(name);
}

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

/** Returns the route with only these parents; undefined if none of them accepts it. */
function acceptedBy(
  parents: ReadonlyMap<string, readonly OpenListener[]>,
  route: AnyRoute,
  isAccepted: (route: AnyRoute, ref: ParentRef, listeners: readonly OpenListener[]) => boolean,
): readonly AnyRoute[] {
  const own = parentsOf(route).flatMap(({ key, ref }) => {
    const listeners = parents.get(key);
    return listeners === undefined ? [] : [{ ref, listeners }];
  });
  if (!own.some(({ ref, listeners }) => isAccepted(route, ref, listeners))) return [];
  if (own.length === route.spec.parentRefs.length) return [route];
  return [withParents(route, ...own.map(({ ref }) => ref))];
}

/** Returns the same route for the same parents. */
const withParents = memoisedWith(
  (route: AnyRoute, ...parentRefs: readonly ParentRef[]): AnyRoute =>
    // The compiler does not relate a kind to its spec.
    ({ ...route, spec: { ...route.spec, parentRefs } }) as AnyRoute,
);

function anyRouteOf(namespace: string): string {
  return `any route of ${namespace}`;
}

function targetsOf({ spec, metadata }: ProxyPolicy): readonly string[] {
  // For a rejected policy without targets.
  if (spec.targetRefs.length === 0) return [anyRouteOf(metadata.namespace)];
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
