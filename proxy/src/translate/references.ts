/** What resources refer to, whether or not it exists: for who must decide what to read. */
import type { Backend } from "../api/backend.ts";
import type { BackendTlsPolicy } from "../api/backend-tls-policy.ts";
import type { BackendReference } from "../api/http-route-filter.ts";
import type { HttpRoute } from "../api/http-route.ts";
import { gatewayGroup, proxyGroup } from "../api/names.ts";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { NamedObject, ResourceSet } from "../api/resource.ts";
import { type Referent, type Referrer, referencePermissions } from "./reference-grants.ts";

/** Every backend that a route names, those of mirrors included. */
export function backendsOfRoute({ metadata, spec }: HttpRoute): readonly Referent[] {
  const named = spec.rules.flatMap(({ backendRefs, filters }): readonly BackendReference[] => {
    const all = [...filters, ...backendRefs.flatMap((ref) => ref.filters)];
    const mirrors = all.flatMap((filter) => (filter.type === "RequestMirror" ? [filter.requestMirror.backendRef] : []));
    return [...backendRefs, ...mirrors];
  });
  return named.map(({ group, kind, namespace = metadata.namespace, name }) => ({ group, kind, namespace, name }));
}

/** The rate limit service that a policy names. */
export function serviceOfPolicy({ metadata, spec }: ProxyPolicy): readonly Referent[] {
  const ref = spec.traffic.rateLimit.global?.backendRef;
  if (ref === undefined) return [];
  const { group, kind, namespace = metadata.namespace, name } = ref;
  return [{ group, kind, namespace, name }];
}

/**
 * Every Secret and ConfigMap that the resources name, each once. One of another namespace only where a ReferenceGrant
 * there permits it: what may not be referred to need not be read.
 */
export function namedObjects(resources: ResourceSet): readonly NamedObject[] {
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const references = [
    ...resources.Gateway.flatMap(ofGateway),
    ...[...resources.Gateway, ...resources.ListenerSet].flatMap(ofListeners),
    ...resources.BackendTLSPolicy.flatMap(ofTlsPolicy),
    ...resources.Backend.flatMap(ofBackend),
  ];
  const permitted = references.filter(({ from, to }) => isPermitted(from, to));
  const distinct = new Map(
    permitted.flatMap(({ to: { kind, namespace, name } }): [string, NamedObject][] =>
      kind === "Secret" || kind === "ConfigMap" ? [[`${kind} ${namespace}/${name}`, { kind, namespace, name }]] : [],
    ),
  );
  return [...distinct.values()];
}

interface Reference {
  readonly from: Referrer;
  readonly to: Referent;
}

interface ObjectReference {
  readonly group: string;
  readonly kind: string;
  readonly namespace?: string | undefined;
  readonly name: string;
}

function reference(from: Referrer, { group, kind, namespace = from.namespace, name }: ObjectReference): Reference {
  return { from, to: { group, kind, namespace, name } };
}

type ListenerOwner = ResourceSet["Gateway"][number] | ResourceSet["ListenerSet"][number];

function ofListeners({ kind, metadata, spec }: ListenerOwner): readonly Reference[] {
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  return spec.listeners.flatMap(({ tls }) => (tls?.certificateRefs ?? []).map((ref) => reference(from, ref)));
}

function ofGateway({ kind, metadata, spec }: ResourceSet["Gateway"][number]): readonly Reference[] {
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  const { frontend, backend } = spec.tls ?? {};
  const validations = [frontend?.default, ...(frontend?.perPort ?? []).map(({ tls }) => tls)];
  const authorities = validations.flatMap((tls) => tls?.validation?.caCertificateRefs ?? []);
  const own = backend?.clientCertificateRef;
  return [...authorities, ...(own === undefined ? [] : [own])].map((ref) => reference(from, ref));
}

function ofTlsPolicy({ kind, metadata, spec }: BackendTlsPolicy): readonly Reference[] {
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  return (spec.validation?.caCertificateRefs ?? []).map((ref) => reference(from, ref));
}

function ofBackend({ kind, metadata, spec }: Backend): readonly Reference[] {
  const from = { group: proxyGroup, kind, namespace: metadata.namespace };
  const secrets = [spec.static?.tls, spec.ai?.tls].flatMap((tls) => [tls?.caRef, tls?.clientCertificateRef]);
  return [...secrets, spec.ai?.auth?.secretRef].flatMap((ref) =>
    ref === undefined ? [] : [reference(from, { group: "", kind: "Secret", name: ref.name })],
  );
}
