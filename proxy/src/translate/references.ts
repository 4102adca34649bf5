/**
 * What resources refer to, whether or not it exists. Everything that follows from a reference (a watch, a Role, a status
 * of the referent, an address) begins at `permittedReferents`: what no ReferenceGrant permits has no effect at all.
 */
import type { Backend } from "../api/backend.ts";
import type { BackendTlsPolicy } from "../api/backend-tls-policy.ts";
import type { HttpRoute } from "../api/http-route.ts";
import { gatewayGroup, proxyGroup } from "../api/names.ts";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { NamedObject, ResourceSet } from "../api/resource.ts";
import { objectName } from "../api/schema.ts";
import { type IsPermitted, type Referent, type Referrer, referencePermissions } from "./reference-grants.ts";

export interface Reference {
  readonly from: Referrer;
  readonly to: Referent;
}

/** What references lead to, without those to another namespace that no ReferenceGrant there permits. */
export function permittedReferents(references: readonly Reference[], isPermitted: IsPermitted): readonly Referent[] {
  return references.flatMap(({ from, to }) => (isPermitted(from, to) ? [to] : []));
}

/** Every backend that a route names, those of mirrors included. */
export function referencesOfRoute({ kind, metadata, spec }: HttpRoute): readonly Reference[] {
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  return spec.rules.flatMap(({ backendRefs, filters }): readonly Reference[] => {
    const all = [...filters, ...backendRefs.flatMap((ref) => ref.filters)];
    const mirrors = all.flatMap((filter) => (filter.type === "RequestMirror" ? [filter.requestMirror.backendRef] : []));
    return [...backendRefs, ...mirrors].map((ref) => reference(from, ref));
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
 * does not follow from there (a Secret of authorities) names nothing.
 */
export function namedObjects(resources: ResourceSet): readonly NamedObject[] {
  const references = [
    ...resources.Gateway.flatMap(ofGateway),
    ...[...resources.Gateway, ...resources.ListenerSet].flatMap(ofListeners),
    ...resources.BackendTLSPolicy.flatMap(ofTlsPolicy),
    ...resources.Backend.flatMap(ofBackend),
  ];
  const permitted = permittedReferents(references, referencePermissions(resources.ReferenceGrant));
  const distinct = new Map(
    permitted.flatMap(({ kind, namespace, name }): [string, NamedObject][] => {
      const isRead = (kind === "Secret" || kind === "ConfigMap") && canExist(name);
      return isRead ? [[`${kind} ${namespace}/${name}`, { kind, namespace, name }]] : [];
    }),
  );
  return [...distinct.values()];
}

/** References have names of any form, and the API server would take some of them for a selector of something else. */
function canExist(name: string): boolean {
  return objectName.safeParse(name).success;
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

const isSecret = ({ group, kind }: ObjectReference) => group === "" && kind === "Secret";
const isConfigMap = ({ group, kind }: ObjectReference) => group === "" && kind === "ConfigMap";

type ListenerOwner = ResourceSet["Gateway"][number] | ResourceSet["ListenerSet"][number];

function ofListeners({ kind, metadata, spec }: ListenerOwner): readonly Reference[] {
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  const certificates = spec.listeners.flatMap(({ tls }) => tls?.certificateRefs ?? []);
  return certificates.filter(isSecret).map((ref) => reference(from, ref));
}

function ofGateway({ kind, metadata, spec }: ResourceSet["Gateway"][number]): readonly Reference[] {
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  const { frontend, backend } = spec.tls ?? {};
  const validations = [frontend?.default, ...(frontend?.perPort ?? []).map(({ tls }) => tls)];
  const authorities = validations.flatMap((tls) => tls?.validation?.caCertificateRefs ?? []);
  const own = [backend?.clientCertificateRef ?? []].flat();
  return [...authorities.filter(isConfigMap), ...own.filter(isSecret)].map((ref) => reference(from, ref));
}

function ofTlsPolicy({ kind, metadata, spec }: BackendTlsPolicy): readonly Reference[] {
  const from = { group: gatewayGroup, kind, namespace: metadata.namespace };
  return (spec.validation?.caCertificateRefs ?? []).filter(isConfigMap).map((ref) => reference(from, ref));
}

function ofBackend({ kind, metadata, spec }: Backend): readonly Reference[] {
  const from = { group: proxyGroup, kind, namespace: metadata.namespace };
  const secrets = [spec.static?.tls, spec.ai?.tls].flatMap((tls) => [tls?.caRef, tls?.clientCertificateRef]);
  return [...secrets, spec.ai?.auth?.secretRef].flatMap((ref) =>
    ref === undefined ? [] : [reference(from, { group: "", kind: "Secret", name: ref.name })],
  );
}
