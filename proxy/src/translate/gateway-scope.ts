/**
 * The part of a cluster's resources that one Gateway is made of: what a proxy needs that serves this Gateway alone, and
 * what its ServiceAccount gets rights for. ListenerSets and routes that the Gateway does not accept are no part of it,
 * nor is what others refer to without permission. What concerns other Gateways is left out of the resources too, so that
 * no condition is told of it.
 */
import { serviceNameLabel } from "../api/endpoint-slice.ts";
import type { HttpRoute } from "../api/http-route.ts";
import { gatewayGroup, proxyGroup } from "../api/names.ts";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { ResourceSet } from "../api/resource.ts";
import type { Service } from "../api/service.ts";
import { memoised } from "./memoised.ts";
import { matchListeners, type OpenListener } from "./attachment.ts";
import { gatewayLabelValue, gatewayNameLabel } from "./gateway-label.ts";
import { allowsSet } from "./listener-sets.ts";
import type { ListenerOwner } from "./owner-references.ts";
import { supportedKindsOf } from "./listeners.ts";
import { type NamespaceLabels, namespaceLabels } from "./namespaces.ts";
import { indexByName, nameKey } from "./object-names.ts";
import { referencePermissions } from "./reference-grants.ts";
import { parentOf, permittedReferents, referencesOfPolicy, referencesOfRoute } from "./references.ts";
import { indexSlices, isReady } from "./service-backend.ts";

export interface GatewayName {
  readonly namespace: string;
  readonly name: string;
}

/** Never throws; empty where the Gateway does not exist. */
export function gatewayScope(resources: ResourceSet, gateway: GatewayName): ResourceSet {
  return gatewayScopes(resources)(gateway);
}

/** The same for one Gateway after the other: of thousands of resources each is looked at once, not once per Gateway. */
export function gatewayScopes(resources: ResourceSet): (gateway: GatewayName) => ResourceSet {
  const labels = namespaceLabels(resources.Namespace);
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const gateways = indexByName(resources.Gateway);
  const setsByParent = groupByKeys(resources.ListenerSet, (set) => [parentOf(set)]);
  const routesByParent = groupByKeys(resources.HTTPRoute, (route) => parentsOf(route).map(({ key }) => key));
  const policiesByTarget = groupByKeys(resources.ProxyPolicy, targetsOf);
  const services = indexByName(resources.Service);
  const ownServices = groupByKeys(resources.Service, ({ metadata }) => [
    `${metadata.namespace} ${metadata.labels[gatewayNameLabel] ?? ""}`,
  ]);
  const tlsPolicies = groupByKeys(resources.BackendTLSPolicy, ({ metadata, spec }) =>
    spec.targetRefs.map(({ name }) => `${metadata.namespace}/${name}`),
  );
  const backends = indexByName(resources.Backend);
  const referentsOf = memoised((route: HttpRoute) => permittedReferents(referencesOfRoute(route), isPermitted));
  const slices = groupByKeys(resources.EndpointSlice, ({ metadata }) => [
    `${metadata.namespace}/${metadata.labels[serviceNameLabel] ?? ""}`,
  ]);

  return ({ namespace, name }) => {
    const key = `${namespace}/${name}`;
    const gateway = gateways.get(key);
    const sets = (setsByParent.get(key) ?? []).filter(
      (set) => gateway !== undefined && allowsSet(gateway, set, labels),
    );
    const parents = new Map(
      [...(gateway ? [gateway] : []), ...sets].map((owner) => [parentKey(owner), listenersOf(owner)]),
    );
    const accepted = valuesOf(routesByParent, parents.keys()).flatMap((whole) =>
      acceptedBy(parents, whole, labels).map((route) => ({ whole, route })),
    );
    const routes = accepted.map(({ route }) => route);
    const targets = new Set([
      `Gateway ${key}`,
      ...routes.flatMap((route) => [`HTTPRoute ${nameKey(route)}`, anyRouteOf(route.metadata.namespace)]),
    ]);
    const policies = valuesOf(policiesByTarget, targets).map((policy) => ofTargets(policy, targets));
    const referents = [
      ...accepted.flatMap(({ whole }) => referentsOf(whole)),
      ...permittedReferents(policies.flatMap(referencesOfPolicy), isPermitted),
    ];
    const namesOf = (group: string, kind: string) =>
      referents.filter((to) => to.group === group && to.kind === kind).map((to) => `${to.namespace}/${to.name}`);
    const own = ownServices.get(`${namespace} ${gatewayLabelValue(name)}`) ?? [];
    const served = new Set([...namesOf("", "Service"), ...own.map(nameKey)]);
    return {
      ...resources,
      Gateway: gateway === undefined ? [] : [gateway],
      ListenerSet: sets,
      HTTPRoute: routes,
      ProxyPolicy: policies,
      BackendTLSPolicy: valuesOf(tlsPolicies, served),
      Backend: [...new Set(namesOf(proxyGroup, "Backend"))].flatMap((backend) => backends.get(backend) ?? []),
      Service: [...served].flatMap((service) => services.get(service) ?? []),
      EndpointSlice: valuesOf(slices, served),
    };
  };
}

/** Each value under each of its keys, in their order. */
function groupByKeys<T>(values: readonly T[], keysOf: (value: T) => readonly (string | undefined)[]) {
  const groups = new Map<string | undefined, T[]>();
  for (const value of values) {
    for (const key of new Set(keysOf(value))) {
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [value]);
      else group.push(value);
    }
  }
  return groups;
}

/** What stands under any of the keys, each once. */
function valuesOf<T>(groups: ReadonlyMap<string | undefined, readonly T[]>, keys: Iterable<string>): readonly T[] {
  return [...new Set([...keys].flatMap((key) => groups.get(key) ?? []))];
}

/** Replicas of the proxy that are ready, as the Gateway's own Service has them; at least 1, which is this one. */
export function readyReplicas(resources: ResourceSet, gateway: GatewayName): number {
  const slices = indexSlices(resources.EndpointSlice);
  const own = resources.Service.filter((service) => isOwnService(service, gateway));
  const counts = own.map((service) => {
    const ready = (slices.get(nameKey(service)) ?? []).flatMap(({ endpoints }) => endpoints.filter(isReady));
    // A pod of two address families stands in two slices.
    return new Set(ready.map(({ targetRef, addresses }) => targetRef?.name ?? addresses[0])).size;
  });
  return Math.max(1, ...counts);
}

function isOwnService({ metadata }: Service, { namespace, name }: GatewayName): boolean {
  return metadata.namespace === namespace && metadata.labels[gatewayNameLabel] === gatewayLabelValue(name);
}

/** Parents of a route that may be ours, as `Gateway namespace/name`. */
const parentsOf = memoised(({ spec, metadata }: HttpRoute) => {
  return spec.parentRefs.flatMap((ref) => {
    const { group, kind, namespace = metadata.namespace, name } = ref;
    return group === gatewayGroup ? [{ key: `${kind} ${namespace}/${name}`, ref }] : [];
  });
});

function parentKey({ kind, metadata }: ListenerOwner): string {
  return `${kind} ${metadata.namespace}/${metadata.name}`;
}

function listenersOf(owner: ListenerOwner): readonly OpenListener[] {
  return owner.spec.listeners.map((listener) => ({ listener, owner, supportedKinds: supportedKindsOf(listener) }));
}

/** The route with those parents alone; nothing where none of them accepts it. */
function acceptedBy(
  parents: ReadonlyMap<string, readonly OpenListener[]>,
  route: HttpRoute,
  labels: NamespaceLabels,
): readonly HttpRoute[] {
  const { spec } = route;
  const own = parentsOf(route).flatMap(({ key, ref }) => {
    const listeners = parents.get(key);
    return listeners === undefined
      ? []
      : [{ ref, isAccepted: matchListeners(route, ref, listeners, labels).kind === "attached" }];
  });
  if (!own.some(({ isAccepted }) => isAccepted)) return [];
  if (own.length === spec.parentRefs.length) return [route];
  return [{ ...route, spec: { ...spec, parentRefs: own.map(({ ref }) => ref) } }];
}

function anyRouteOf(namespace: string): string {
  return `any HTTPRoute of ${namespace}`;
}

function targetsOf({ spec, metadata }: ProxyPolicy): readonly string[] {
  // Of one that is refused and names no target.
  if (spec.targetRefs.length === 0) return [anyRouteOf(metadata.namespace)];
  return spec.targetRefs.map(({ kind, name }) => `${kind} ${metadata.namespace}/${name}`);
}

/** The policy with those targets alone. */
function ofTargets(policy: ProxyPolicy, targets: ReadonlySet<string>): ProxyPolicy {
  const { spec } = policy;
  const keys = targetsOf(policy);
  const own = spec.targetRefs.filter((_, index) => targets.has(keys[index] ?? ""));
  return own.length === spec.targetRefs.length ? policy : { ...policy, spec: { ...spec, targetRefs: own } };
}
