/**
 * The part of a cluster's resources that one Gateway is made of: what a proxy needs that serves this Gateway alone.
 * What concerns other Gateways is left out of the resources too, so that no condition is told of it.
 */
import { serviceNameLabel } from "../api/endpoint-slice.ts";
import type { HttpRoute } from "../api/http-route.ts";
import type { ListenerSet } from "../api/listener-set.ts";
import { gatewayGroup, proxyGroup } from "../api/names.ts";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { ResourceSet } from "../api/resource.ts";
import type { Service } from "../api/service.ts";
import { gatewayLabelValue, gatewayNameLabel } from "./gateway-label.ts";
import { nameKey } from "./object-names.ts";
import { backendsOfRoute, serviceOfPolicy } from "./references.ts";
import { indexSlices, isReady } from "./service-backend.ts";

export interface GatewayName {
  readonly namespace: string;
  readonly name: string;
}

/** Never throws; empty where the Gateway does not exist. */
export function gatewayScope(resources: ResourceSet, gateway: GatewayName): ResourceSet {
  const { namespace, name } = gateway;
  const key = `${namespace}/${name}`;
  const sets = resources.ListenerSet.filter((set) => parentOf(set) === key);
  const parents = new Set([`Gateway ${key}`, ...sets.map((set) => `ListenerSet ${nameKey(set)}`)]);
  const routes = resources.HTTPRoute.flatMap((route) => ofParents(route, parents));
  const targets = new Set([`Gateway ${key}`, ...routes.map((route) => `HTTPRoute ${nameKey(route)}`)]);
  const policies = resources.ProxyPolicy.flatMap((policy) => ofTargets(policy, targets));
  const referents = [...routes.flatMap(backendsOfRoute), ...policies.flatMap(serviceOfPolicy)];
  const named = new Set(referents.map((to) => `${to.group} ${to.kind} ${to.namespace}/${to.name}`));
  const services = resources.Service.filter(
    (service) => named.has(` Service ${nameKey(service)}`) || isOwnService(service, gateway),
  );
  const served = new Set(services.map(nameKey));
  return {
    ...resources,
    Gateway: resources.Gateway.filter((candidate) => nameKey(candidate) === key),
    ListenerSet: sets,
    HTTPRoute: routes,
    ProxyPolicy: policies,
    BackendTLSPolicy: resources.BackendTLSPolicy.filter(({ metadata, spec }) =>
      spec.targetRefs.some(({ name: target }) => served.has(`${metadata.namespace}/${target}`)),
    ),
    Backend: resources.Backend.filter((backend) => named.has(`${proxyGroup} Backend ${nameKey(backend)}`)),
    Service: services,
    EndpointSlice: resources.EndpointSlice.filter(({ metadata }) => {
      const service = metadata.labels[serviceNameLabel];
      return service !== undefined && served.has(`${metadata.namespace}/${service}`);
    }),
  };
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

function parentOf({ metadata, spec: { parentRef } }: ListenerSet): string | undefined {
  if (parentRef.group !== gatewayGroup || parentRef.kind !== "Gateway") return undefined;
  return `${parentRef.namespace ?? metadata.namespace}/${parentRef.name}`;
}

/** The route with those parents alone; none where it has none of them. */
function ofParents(route: HttpRoute, parents: ReadonlySet<string>): readonly HttpRoute[] {
  const { spec, metadata } = route;
  const own = spec.parentRefs.filter(
    ({ group, kind, namespace = metadata.namespace, name }) =>
      group === gatewayGroup && parents.has(`${kind} ${namespace}/${name}`),
  );
  if (own.length === spec.parentRefs.length && own.length > 0) return [route];
  return own.length === 0 ? [] : [{ ...route, spec: { ...spec, parentRefs: own } }];
}

/** The policy with those targets alone; none where it has none of them. */
function ofTargets(policy: ProxyPolicy, targets: ReadonlySet<string>): readonly ProxyPolicy[] {
  const { spec, metadata } = policy;
  const own = spec.targetRefs.filter(({ kind, name }) => targets.has(`${kind} ${metadata.namespace}/${name}`));
  if (own.length === spec.targetRefs.length) return [policy];
  return own.length === 0 ? [] : [{ ...policy, spec: { ...spec, targetRefs: own } }];
}
