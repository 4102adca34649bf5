/**
 * The TLS of a listener: its certificates, its options, and how client certificates on its port are validated (Gateway API
 * `ListenerTLSConfig`, `FrontendTLSConfig`). A reference that cannot be resolved does not affect the others. For an object
 * that has become malformed, its previous content is used. A listener is not served without a certificate, or if client
 * certificates are required and no authority can validate them.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../../api/gateway.ts";
import type { FieldPath } from "../../api/issue.ts";
import type { Listener, SecretReference } from "../../api/listener.ts";
import { gatewayGroup } from "../../api/names.ts";
import type { ListenerUnresolved } from "../../api/status.ts";
import type { Certificate, ClientValidation, ListenerTls } from "../../ir/snapshot.ts";
import { AuthorityBudget } from "./certificates.ts";
import { type Held, noValidAuthority } from "./credentials.ts";
import type { Finding } from "../status/finding.ts";
import { nameKey } from "../index/object-names.ts";
import {
  type NamedObjects,
  namedConfigMaps,
  namedSecrets,
  type ReadableResources,
} from "../reference/named-objects.ts";
import { isWithinBound, type ListenerOwner, maxReferencesOfOwner } from "../reference/owner-references.ts";
import { type IsPermitted, referencePermissions } from "../reference/reference-grants.ts";
import { resolveTlsOptions } from "./tls-options.ts";

/** The resolved TLS of a listener. */
export interface ResolvedTls {
  /** Undefined if the listener cannot be served. */
  readonly tls: ListenerTls | undefined;
  /** Why the listener is not accepted. If `tls` is nevertheless defined, it has the previous valid content. */
  readonly rejections: readonly Finding<"UnsupportedValue" | "NoValidCACertificate">[];
  readonly unresolved: readonly Finding<ListenerUnresolved>[];
  readonly unsupported: readonly Finding<"Unsupported">[];
}

/** Resolves the TLS of an HTTPS listener. @param path of the listener in its owner. */
export type ResolveTls = (
  gateway: Gateway,
  owner: ListenerOwner,
  listener: Listener,
  path: FieldPath,
) => Steps<ResolvedTls>;

type Resolved<T, Reason extends ListenerUnresolved> =
  | { readonly kind: "resolved"; readonly value: T }
  /** The object is malformed; this is its previous content. */
  | { readonly kind: "previous"; readonly value: T; readonly reason: Reason; readonly message: string }
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
    // The status of a ListenerSet reports errors of its Gateway, but they are in another manifest.
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
          ? [
              {
                reason: "InvalidCertificateRef" as const,
                message: "it refers to no certificate",
                path: [...path, "tls"],
              },
            ]
          : []),
        ...certificates.unresolved,
        ...authorities.unresolved.map((finding) => withoutForeignNames(finding, gateway, owner)),
      ],
      unsupported: options.unsupported,
    };
  };
}

/** The status of a ListenerSet does not name objects of its Gateway in another namespace. */
function withoutForeignNames<Reason extends ListenerUnresolved>(
  finding: Finding<Reason>,
  gateway: Gateway,
  owner: ListenerOwner,
): Finding<Reason> {
  if (owner.metadata.namespace === gateway.metadata.namespace) return finding;
  return { ...finding, message: "the Gateway refers to an invalid authority for client certificates" };
}

type ResolvedCertificate = Resolved<Certificate, "InvalidCertificateRef" | "RefNotPermitted">;

/** Resolves references to certificates and their keys. */
export function certificateResolver(
  resources: ReadableResources,
): (owner: ListenerOwner, ref: SecretReference) => ResolvedCertificate {
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const secrets = namedSecrets(resources);
  const { certificate } = resources.credentials;
  return (owner, ref) => {
    if (ref.group !== "" || ref.kind !== "Secret") {
      const message = `kind ${ref.kind} (group "${ref.group}") contains no certificate, accepted is Secret`;
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
      const message = `kind ${ref.kind} (group "${ref.group}") contains no authorities, accepted is ConfigMap`;
      return { kind: "unresolved", reason: "InvalidCACertificateKind", message };
    }
    const found = follow(isPermitted, gateway, ref, configMaps);
    return found.kind === "unresolved" ? found : asResolved(found, "InvalidCACertificateRef", authorities);
  };
}

type Unpermitted = Extract<Resolved<never, "RefNotPermitted">, { kind: "unresolved" }>;

/** The object of a permitted reference. */
interface Found<T> {
  readonly kind: "found";
  /** For messages. */
  readonly name: string;
  readonly object: T | undefined;
  /** Why there is no object. */
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
    // The message does not reveal whether the object exists.
    const message = `${kind} ${namespace}/${name} is in another namespace, and no ReferenceGrant there permits it`;
    return { kind: "unresolved", reason: "RefNotPermitted", message };
  }
  const key = `${namespace}/${name}`;
  const found = { kind: "found", name: `${kind} ${key}` } as const;
  if (!isWithinBound(owner, kind, key)) {
    const absence = `is not read: ${owner.kind} ${nameKey(owner)} refers to more than ${maxReferencesOfOwner} different Secrets and ConfigMaps`;
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
  return held.kind === "previous"
    ? { kind: "previous", value: held.value, reason, message }
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

/** Returns how client certificates on a port are validated. Settings of the port replace the default, even empty ones. */
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
 * Resolves the references of a list.
 *
 * @param listPath of the list; absent if it is in another manifest.
 * @param elsewhere the path for findings in that case.
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
    // OpenSSL takes up to milliseconds to read a certificate.
    yield;
  }
  return { values, unresolved };
}
