/**
 * The objects to which resources refer, whether or not they exist. Everything that a reference leads to (a watch, a Role, a
 * status of the referent, an address) uses `permittedReferents`: a reference without a ReferenceGrant has no effect.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Backend } from "../../api/backend.ts";
import type { BackendTlsPolicy } from "../../api/backend-tls-policy.ts";
import type { HttpRoute } from "../../api/http-route.ts";
import type { BackendReference } from "../../api/http-route-filter.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import { gatewayGroup, proxyGroup } from "../../api/names.ts";
import type { ProxyPolicy } from "../../api/proxy-policy.ts";
import type { NamedObject, ResourceSet } from "../../api/resource.ts";
import { objectName } from "../../api/schema.ts";
import { blaming, eachObject, itself } from "../each-object.ts";
import { gatewayOwnership } from "../gateway/gateway-classes.ts";
import { allowsSet } from "../listener/listener-sets.ts";
import { memoised } from "../memoised.ts";
import { namespaceLabels } from "../index/namespaces.ts";
import { indexByName } from "../index/object-names.ts";
import { isConfigMap, type Reference, reference, referencesOfOwner } from "./owner-references.ts";
import { type IsPermitted, type Referent, referencePermissions } from "./reference-grants.ts";

/** Returns the referents, without those in another namespace for which there is no ReferenceGrant. */
export function permittedReferents(references: readonly Reference[], isPermitted: IsPermitted): readonly Referent[] {
  return references.flatMap(({ from, to }) => (isPermitted(from, to) ? [to] : []));
}

/**
 * Returns the references of a route to backends, including those of mirrors, each once. The result is memoised, since it is
 * needed for each Gateway of the route.
 */
export const referencesOfRoute = memoised((route: HttpRoute): readonly Reference[] => {
  const { kind, metadata } = route;
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  const distinct = new Map<string, Reference>();
  for (const each of backendRefsOf(route)) {
    const found = reference(from, each);
    const { group, kind: of, namespace, name } = found.to;
    distinct.set(`${group} ${of} ${namespace}/${name}`, found);
  }
  return [...distinct.values()];
});

/** Returns all references of a route's rules to backends, including those of mirrors. */
export function backendRefsOf({ spec }: HttpRoute): readonly BackendReference[] {
  return spec.rules.flatMap(({ backendRefs, filters }) => {
    const all = [...filters, ...backendRefs.flatMap((ref) => ref.filters)];
    const mirrors = all.flatMap((filter) => (filter.type === "RequestMirror" ? [filter.requestMirror.backendRef] : []));
    return [...backendRefs, ...mirrors];
  });
}

/** Returns the reference of a policy to a rate limit service. */
export function referencesOfPolicy({ kind, metadata, spec }: ProxyPolicy): readonly Reference[] {
  const ref = spec.traffic.rateLimit.global?.backendRef;
  const from = { group: proxyGroup, kind, namespace: metadata.namespace };
  return ref === undefined ? [] : [reference(from, ref)];
}

/**
 * Returns every Secret and ConfigMap to which the resources refer and are permitted to refer, each once. These do not
 * count: references to a kind that is not supported there (a Secret of authorities), Gateways of other classes, and
 * ListenerSets that no Gateway of this controller accepts.
 */
export function* namedObjects(resources: ResourceSet): Steps<readonly NamedObject[]> {
  const ownershipOf = gatewayOwnership(resources.GatewayClass);
  const gateways = resources.Gateway.filter((gateway) => ownershipOf(gateway) === "ours");
  const labels = namespaceLabels(resources.Namespace);
  const byName = indexByName(gateways);
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const ofSets = yield* eachObject(resources.ListenerSet, itself, (set) => {
    const gateway = byName.get(parentOf(set) ?? "");
    return gateway !== undefined && allowsSet(gateway, set, labels) ? referencesOfOwner(set) : [];
  });
  const distinct = new Map<string, NamedObject>();
  for (const references of [...(yield* eachObject(gateways, itself, referencesOfOwner)), ...ofSets]) {
    for (const [key, object] of readable(permittedReferents(references, isPermitted))) distinct.set(key, object);
    yield;
  }
  for (const each of [...resources.BackendTLSPolicy, ...resources.Backend]) {
    for (const [key, object] of blaming(each, () => namedLocally(each))) distinct.set(key, object);
    yield;
  }
  return [...distinct.values()];
}

/**
 * Returns the Secrets and ConfigMaps to which an object refers in its own namespace, which needs no grant. The result is
 * memoised, since it is needed for each Gateway with a route to the object.
 */
const namedLocally = memoised((object: BackendTlsPolicy | Backend) => {
  const references = object.kind === "Backend" ? referencesOfBackend(object) : ofTlsPolicy(object);
  return readable(references.map(({ to }) => to));
});

/** Returns the Secrets and ConfigMaps among referents, by `kind namespace/name`. */
function readable(referents: readonly Referent[]): readonly (readonly [string, NamedObject])[] {
  return referents.flatMap(({ kind, namespace, name }) => {
    const isRead = (kind === "Secret" || kind === "ConfigMap") && canExist(name);
    return isRead ? [[`${kind} ${namespace}/${name}`, { kind, namespace, name }] as const] : [];
  });
}

/** Returns `namespace/name` of the Gateway of a ListenerSet; undefined if its parent has another kind. */
export function parentOf({ metadata, spec: { parentRef } }: ListenerSet): string | undefined {
  if (parentRef.group !== gatewayGroup || parentRef.kind !== "Gateway") return undefined;
  return `${parentRef.namespace ?? metadata.namespace}/${parentRef.name}`;
}

/** References can have names of any form, and the API server would read some of them as a selector of other objects. */
function canExist(name: string): boolean {
  return objectName.safeParse(name).success;
}

function ofTlsPolicy({ kind, metadata, spec }: BackendTlsPolicy): readonly Reference[] {
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  return (spec.validation?.caCertificateRefs ?? []).filter(isConfigMap).map((ref) => reference(from, ref));
}

/** The Secrets of a Backend. */
export function referencesOfBackend({ kind, metadata, spec }: Backend): readonly Reference[] {
  const from = { group: proxyGroup, kind, namespace: metadata.namespace };
  const secrets = [spec.static?.tls, spec.ai?.tls].flatMap((tls) => [tls?.caRef, tls?.clientCertificateRef]);
  return [...secrets, spec.ai?.auth?.secretRef].flatMap((ref) =>
    ref === undefined ? [] : [reference(from, { group: "", kind: "Secret", name: ref.name })],
  );
}
