/**
 * TLS of a listener: the certificates it refers to, its options, and how its Gateway has clients of its port show who
 * they are (Gateway API `ListenerTLSConfig`, `FrontendTLSConfig`). A reference that cannot be followed leaves the others
 * in force, and one to an object that has become malformed leaves in force what that held before; a listener without any
 * certificate is not served, nor one whose clients nothing could validate.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../api/gateway.ts";
import type { FieldPath } from "../api/issue.ts";
import type { Listener, SecretReference } from "../api/listener.ts";
import { gatewayGroup } from "../api/names.ts";
import type { ListenerUnresolved } from "../api/status.ts";
import type { Certificate, ClientValidation, ListenerTls } from "../ir/snapshot.ts";
import { AuthorityBudget } from "./certificates.ts";
import { type Held, noValidAuthority } from "./credentials.ts";
import type { Finding } from "./finding.ts";
import { nameKey } from "./object-names.ts";
import { type NamedObjects, namedConfigMaps, namedSecrets, type ReadableResources } from "./named-objects.ts";
import { isWithinBound, type ListenerOwner, maxReferencesOfOwner } from "./owner-references.ts";
import { type IsPermitted, referencePermissions } from "./reference-grants.ts";
import { resolveTlsOptions } from "./tls-options.ts";

/** What TLS of one listener came to. */
export interface ResolvedTls {
  /** Undefined where the listener cannot be served. */
  readonly tls: ListenerTls | undefined;
  /** Why the listener is not accepted; where `tls` is there all the same, it is what was sound before. */
  readonly rejections: readonly Finding<"UnsupportedValue" | "NoValidCACertificate">[];
  readonly unresolved: readonly Finding<ListenerUnresolved>[];
  readonly unsupported: readonly Finding<"Unsupported">[];
}

/** Judges an HTTPS listener. @param path of the listener in its owner. */
export type ResolveTls = (
  gateway: Gateway,
  owner: ListenerOwner,
  listener: Listener,
  path: FieldPath,
) => Steps<ResolvedTls>;

type Resolved<T, Reason extends ListenerUnresolved> =
  | { readonly kind: "resolved"; readonly value: T }
  /** The object is malformed; this is what it held before. */
  | { readonly kind: "former"; readonly value: T; readonly reason: Reason; readonly message: string }
  | { readonly kind: "unresolved"; readonly reason: Reason; readonly message: string };

export function tlsResolver(resources: ReadableResources): ResolveTls {
  const certificateOf = certificateResolver(resources);
  const authoritiesOf = authoritiesResolver(resources);
  return function* (gateway, owner, listener, path) {
    const options = resolveTlsOptions(listener.tls?.options ?? {}, [...path, "tls", "options"]);
    const refs = listener.tls?.certificateRefs ?? [];
    const certificates = yield* resolveAll(refs, [...path, "tls", "certificateRefs"], (ref) =>
      certificateOf(owner, ref),
    );
    const validation = validationOf(gateway, listener.port);
    // A ListenerSet's status tells of its Gateway's faults, but they stand in another manifest.
    const validationPath = owner === gateway ? validation?.path : undefined;
    const budget = new AuthorityBudget();
    const withinBudget = (ref: ValidationRef): ResolvedAuthorities => {
      const found = authoritiesOf(gateway, ref);
      const rejection = found.kind === "unresolved" ? undefined : budget.rejection(found.value);
      if (rejection === undefined) return found;
      const message = `ConfigMap ${ref.namespace ?? gateway.metadata.namespace}/${ref.name} ${rejection}`;
      return { kind: "unresolved", reason: "InvalidCACertificateRef", message };
    };
    const authorities = yield* resolveAll(validation?.refs ?? [], validationPath, withinBudget, path);
    const rejections: ResolvedTls["rejections"][number][] = [...options.rejections];
    const canValidate = validation === undefined || authorities.values.length > 0;
    if (validation !== undefined && authorities.unresolved.length === validation.refs.length) {
      const message = noValidAuthority("its clients", canValidate);
      rejections.push({ reason: "NoValidCACertificate", message, path: validationPath ?? path });
    }
    const clientValidation: ClientValidation | undefined =
      validation === undefined ? undefined : { authorities: authorities.values, mode: validation.mode };
    const isSupported = options.rejections.length === 0 && canValidate && certificates.values.length > 0;
    return {
      tls: isSupported
        ? { certificates: certificates.values, ...options.options, ...(clientValidation && { clientValidation }) }
        : undefined,
      rejections,
      unresolved: [
        ...(refs.length === 0
          ? [{ reason: "InvalidCertificateRef" as const, message: "it names no certificate", path: [...path, "tls"] }]
          : []),
        ...certificates.unresolved,
        ...authorities.unresolved.map((finding) => withoutForeignNames(finding, gateway, owner)),
      ],
      unsupported: options.unsupported,
    };
  };
}

/** The owner of a ListenerSet is told nothing of the Gateway's objects where they are in another namespace. */
function withoutForeignNames<Reason extends ListenerUnresolved>(
  finding: Finding<Reason>,
  gateway: Gateway,
  owner: ListenerOwner,
): Finding<Reason> {
  if (owner.metadata.namespace === gateway.metadata.namespace) return finding;
  return { ...finding, message: "the Gateway refers to an authority for clients that cannot be used" };
}

type ResolvedCertificate = Resolved<Certificate, "InvalidCertificateRef" | "RefNotPermitted">;

/** Follows references to certificates and their keys. */
export function certificateResolver(
  resources: ReadableResources,
): (owner: ListenerOwner, ref: SecretReference) => ResolvedCertificate {
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const secrets = namedSecrets(resources);
  const { certificate } = resources.credentials;
  return (owner, ref) => {
    if (ref.group !== "" || ref.kind !== "Secret") {
      const message = `kind ${ref.kind} (group "${ref.group}") holds no certificate, accepted is Secret`;
      return { kind: "unresolved", reason: "InvalidCertificateRef", message };
    }
    const found = follow(isPermitted, owner, ref, secrets);
    return found.kind === "unresolved" ? found : asResolved(found, "InvalidCertificateRef", certificate);
  };
}

type ResolvedAuthorities = Resolved<string, "InvalidCACertificateRef" | "InvalidCACertificateKind" | "RefNotPermitted">;

function authoritiesResolver(
  resources: ReadableResources,
): (gateway: Gateway, ref: ValidationRef) => ResolvedAuthorities {
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const configMaps = namedConfigMaps(resources);
  const { authorities } = resources.credentials;
  return (gateway, ref) => {
    if (ref.group !== "" || ref.kind !== "ConfigMap") {
      const message = `kind ${ref.kind} (group "${ref.group}") holds no authorities, accepted is ConfigMap`;
      return { kind: "unresolved", reason: "InvalidCACertificateKind", message };
    }
    const found = follow(isPermitted, gateway, ref, configMaps);
    return found.kind === "unresolved" ? found : asResolved(found, "InvalidCACertificateRef", authorities);
  };
}

type Unpermitted = Extract<Resolved<never, "RefNotPermitted">, { kind: "unresolved" }>;

/** What stands at the end of a reference that may be followed. */
interface Found<T> {
  readonly kind: "found";
  /** For messages. */
  readonly name: string;
  readonly object: T | undefined;
  /** Why there is none. */
  readonly absence: string;
}

function follow<T>(
  isPermitted: IsPermitted,
  owner: ListenerOwner,
  { kind, name, namespace = owner.metadata.namespace }: Omit<ValidationRef, "group">,
  objects: NamedObjects<T>,
): Found<T> | Unpermitted {
  const from = { group: gatewayGroup, kind: owner.kind, namespace: owner.metadata.namespace };
  if (!isPermitted(from, { group: "", kind, namespace, name })) {
    // What the other namespace holds is not told.
    const message = `${kind} ${namespace}/${name} is in another namespace, and no ReferenceGrant there permits it`;
    return { kind: "unresolved", reason: "RefNotPermitted", message };
  }
  const key = `${namespace}/${name}`;
  const found = { kind: "found", name: `${kind} ${key}` } as const;
  if (!isWithinBound(owner, kind, key)) {
    const absence = `is not read: ${owner.kind} ${nameKey(owner)} names more than ${maxReferencesOfOwner} different Secrets and ConfigMaps`;
    return { ...found, object: undefined, absence };
  }
  return { ...found, object: objects.get(key), absence: objects.absence(key) };
}

function asResolved<Object, T, Reason extends ListenerUnresolved>(
  { name, object, absence }: Found<Object>,
  reason: Reason,
  read: (object: Object) => Held<T>,
): Resolved<T, Reason> {
  if (object === undefined) return { kind: "unresolved", reason, message: `${name} ${absence}` };
  const held = read(object);
  if (held.kind === "read") return { kind: "resolved", value: held.value };
  const message = `${name} ${held.fault}`;
  return held.kind === "former"
    ? { kind: "former", value: held.value, reason, message }
    : { kind: "unresolved", reason, message };
}

interface Validation {
  readonly mode: ClientValidation["mode"];
  readonly refs: readonly ValidationRef[];
  readonly path: FieldPath;
}

interface ValidationRef {
  readonly group: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** How clients of a port are validated; what is set for the port replaces the default, even by nothing. */
export function validationOf({ spec }: Gateway, port: number): Validation | undefined {
  const frontend = spec.tls?.frontend;
  if (frontend === undefined) return undefined;
  const index = frontend.perPort.findIndex((entry) => entry.port === port);
  const { validation } = frontend.perPort[index]?.tls ?? frontend.default;
  const place = index === -1 ? ["default"] : ["perPort", index, "tls"];
  const path = ["spec", "tls", "frontend", ...place, "validation", "caCertificateRefs"];
  return validation === undefined ? undefined : { mode: validation.mode, refs: validation.caCertificateRefs, path };
}

/**
 * Follows references of a list.
 *
 * @param listPath where the list stands; absent where that is another manifest.
 * @param elsewhere the path to name then.
 */
function* resolveAll<Ref, T, Reason extends ListenerUnresolved>(
  refs: readonly Ref[],
  listPath: FieldPath | undefined,
  resolve: (ref: Ref) => Resolved<T, Reason>,
  elsewhere: FieldPath = [],
): Steps<{ readonly values: readonly T[]; readonly unresolved: readonly Finding<Reason>[] }> {
  const values: T[] = [];
  const unresolved: Finding<Reason>[] = [];
  for (const [index, ref] of refs.entries()) {
    const resolved = resolve(ref);
    const path = listPath === undefined ? elsewhere : [...listPath, index];
    if (resolved.kind !== "unresolved") values.push(resolved.value);
    if (resolved.kind !== "resolved") unresolved.push({ reason: resolved.reason, message: resolved.message, path });
    // To read a certificate takes OpenSSL up to milliseconds.
    yield;
  }
  return { values, unresolved };
}
