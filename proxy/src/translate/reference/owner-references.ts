/** The references of a Gateway or a ListenerSet for TLS, and how many of them are read. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Gateway } from "../../api/gateway.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import { type Referent, type Referrer, referrerOf } from "./reference-grants.ts";

/** A reference with both of its ends, as a ReferenceGrant names them. */
export interface Reference {
  readonly from: Referrer;
  readonly to: Referent;
}

/** The owner of a listener, which may refer to its own namespace without a grant. */
export type ListenerOwner = Gateway | ListenerSet;

/**
 * The maximum number of different Secrets and ConfigMaps of a Gateway or ListenerSet. The Gateway API permits thousands
 * (64 listeners with 64 certificates each), and the controller and every proxy read each of them.
 */
export const maxReferencesOfOwner = 256;

/**
 * The maximum number of different Secrets and ConfigMaps to which all objects of a namespace refer. Each takes some 5
 * KB of a process that reads it, and anyone may write thousands of Gateways, ListenerSets and Backends.
 */
export const maxReferencesOfNamespace = 4_096;

/** Whether a Secret or ConfigMap is among the first ones of its Gateway or ListenerSet, which are read. */
export function isWithinBound(owner: ListenerOwner, kind: string, name: string): boolean {
  return readNames(owner).has(`${kind} ${name}`);
}

const namesByOwner = new WeakMap<ListenerOwner, ReadonlySet<string>>();

/** Returns `kind namespace/name`. */
function readNames(owner: ListenerOwner): ReadonlySet<string> {
  const known = namesByOwner.get(owner);
  if (known !== undefined) return known;
  const all = new Set(allReferencesOfOwner(owner).map(({ to }) => `${to.kind} ${objectKey(to)}`));
  const read = new Set([...all].slice(0, maxReferencesOfOwner));
  namesByOwner.set(owner, read);
  return read;
}

/** The references that are read. */
export function referencesOfOwner(owner: ListenerOwner): readonly Reference[] {
  return allReferencesOfOwner(owner).filter(({ to }) => isWithinBound(owner, to.kind, objectKey(to)));
}

function allReferencesOfOwner(owner: ListenerOwner): readonly Reference[] {
  return [...(owner.kind === "Gateway" ? ofGateway(owner) : []), ...ofListeners(owner)];
}

interface ObjectReference {
  readonly group: string;
  readonly kind: string;
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** An object without a namespace is in that of the referrer. */
export function reference(
  from: Referrer,
  { group, kind, namespace = from.namespace, name }: ObjectReference,
): Reference {
  return { from, to: { group, kind, namespace, name } };
}

/** Whether a reference names a Secret, of the core group. */
export const isSecret = ({ group, kind }: ObjectReference) => group === "" && kind === "Secret";
/** Whether a reference names a ConfigMap, of the core group. */
export const isConfigMap = ({ group, kind }: ObjectReference) => group === "" && kind === "ConfigMap";

function ofListeners(owner: ListenerOwner): readonly Reference[] {
  const from = referrerOf(owner);
  // Gateway API `ListenerTLSConfig.certificateRefs`: a listener that passes TLS on has no certificates.
  const certificates = owner.spec.listeners.flatMap(({ tls }) =>
    tls?.mode === "Terminate" ? tls.certificateRefs : [],
  );
  return certificates.filter(isSecret).map((ref) => reference(from, ref));
}

function ofGateway(gateway: Gateway): readonly Reference[] {
  const from = referrerOf(gateway);
  const { frontend, backend } = gateway.spec.tls ?? {};
  const validations = [frontend?.default, ...(frontend?.perPort ?? []).map(({ tls }) => tls)];
  const authorities = validations.flatMap((tls) => tls?.validation?.caCertificateRefs ?? []);
  const own = [backend?.clientCertificateRef ?? []].flat();
  return [...authorities.filter(isConfigMap), ...own.filter(isSecret)].map((ref) => reference(from, ref));
}
