/**
 * What resources refer to, whether or not it exists. Everything that follows from a reference (a watch, a Role, a status
 * of the referent, an address) begins at `permittedReferents`: what no ReferenceGrant permits has no effect at all.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Backend } from "../api/backend.ts";
import type { BackendTlsPolicy } from "../api/backend-tls-policy.ts";
import type { HttpRoute } from "../api/http-route.ts";
import type { BackendReference } from "../api/http-route-filter.ts";
import type { ListenerSet } from "../api/listener-set.ts";
import { gatewayGroup, proxyGroup } from "../api/names.ts";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { NamedObject, ResourceSet } from "../api/resource.ts";
import { objectName } from "../api/schema.ts";
import { blaming, eachObject, itself } from "./each-object.ts";
import { gatewayOwnership } from "./gateway-classes.ts";
import { allowsSet } from "./listener-sets.ts";
import { memoised } from "./memoised.ts";
import { namespaceLabels } from "./namespaces.ts";
import { indexByName } from "./object-names.ts";
import { isConfigMap, type Reference, reference, referencesOfOwner } from "./owner-references.ts";
import { type IsPermitted, type Referent, referencePermissions } from "./reference-grants.ts";

/** What references lead to, without those to another namespace that no ReferenceGrant there permits. */
export function permittedReferents(references: readonly Reference[], isPermitted: IsPermitted): readonly Referent[] {
  return references.flatMap(({ from, to }) => (isPermitted(from, to) ? [to] : []));
}

/**
 * Every backend that a route names, those of mirrors included, each once. Routes are asked about once for each of their
 * Gateways.
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

/** Every reference of a route's rules to a backend, those of mirrors included. */
export function backendRefsOf({ spec }: HttpRoute): readonly BackendReference[] {
  return spec.rules.flatMap(({ backendRefs, filters }) => {
    const all = [...filters, ...backendRefs.flatMap((ref) => ref.filters)];
    const mirrors = all.flatMap((filter) => (filter.type === "RequestMirror" ? [filter.requestMirror.backendRef] : []));
    return [...backendRefs, ...mirrors];
  });
}

/** The rate limit service that a policy names. */
export function referencesOfPolicy({ kind, metadata, spec }: ProxyPolicy): readonly Reference[] {
  const ref = spec.traffic.rateLimit.global?.backendRef;
  const from = { group: proxyGroup, kind, namespace: metadata.namespace };
  return ref === undefined ? [] : [reference(from, ref)];
}

/**
 * Every Secret and ConfigMap that the resources may refer to and do, each once. A reference to a kind that translation
 * does not follow from there (a Secret of authorities) names nothing, nor does a Gateway of another class or a ListenerSet
 * that no Gateway of ours takes.
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
 * The Secrets and ConfigMaps that an object names in its own namespace, which needs no grant. Each Gateway whose routes lead
 * to the object asks for them.
 */
const namedLocally = memoised((object: BackendTlsPolicy | Backend) => {
  const references = object.kind === "Backend" ? referencesOfBackend(object) : ofTlsPolicy(object);
  return readable(references.map(({ to }) => to));
});

/** The Secrets and ConfigMaps among referents, by `kind namespace/name`. */
function readable(referents: readonly Referent[]): readonly (readonly [string, NamedObject])[] {
  return referents.flatMap(({ kind, namespace, name }) => {
    const isRead = (kind === "Secret" || kind === "ConfigMap") && canExist(name);
    return isRead ? [[`${kind} ${namespace}/${name}`, { kind, namespace, name }] as const] : [];
  });
}

/** `namespace/name` of the Gateway of a ListenerSet; undefined where its parent is of another kind. */
export function parentOf({ metadata, spec: { parentRef } }: ListenerSet): string | undefined {
  if (parentRef.group !== gatewayGroup || parentRef.kind !== "Gateway") return undefined;
  return `${parentRef.namespace ?? metadata.namespace}/${parentRef.name}`;
}

/** References have names of any form, and the API server would take some of them for a selector of something else. */
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
