/**
 * TLS of a listener: the certificates it refers to, its options, and how its Gateway has clients of its port show who
 * they are (Gateway API `ListenerTLSConfig`, `FrontendTLSConfig`). A reference that cannot be followed leaves the others
 * in force; a listener without any certificate is not served, nor one whose clients nothing could validate.
 */
import type { Gateway } from "../api/gateway.ts";
import type { FieldPath } from "../api/issue.ts";
import type { Listener, SecretReference } from "../api/listener.ts";
import type { ListenerSet } from "../api/listener-set.ts";
import { gatewayGroup } from "../api/names.ts";
import type { ResourceSet } from "../api/resource.ts";
import type { ListenerUnresolved } from "../api/status.ts";
import type { Certificate, ClientValidation, ListenerTls } from "../ir/snapshot.ts";
import { type Read, readAuthorities, readCertificate } from "./certificates.ts";
import type { Finding } from "./finding.ts";
import { indexByName } from "./object-names.ts";
import { referencePermissions } from "./reference-grants.ts";
import { judgeTlsOptions } from "./tls-options.ts";

/** What TLS of one listener came to. */
export interface JudgedTls {
  /** Undefined where the listener cannot be served. */
  readonly tls: ListenerTls | undefined;
  readonly refusals: readonly Finding<"UnsupportedValue" | "NoValidCACertificate">[];
  readonly unresolved: readonly Finding<ListenerUnresolved>[];
  readonly unserved: readonly Finding<"Unserved">[];
}

/** Whose listener it is, and what it may refer to without a grant. */
export type ListenerOwner = Gateway | ListenerSet;

/** Judges an HTTPS listener. @param path of the listener in its owner. */
export type JudgeTls = (gateway: Gateway, owner: ListenerOwner, listener: Listener, path: FieldPath) => JudgedTls;

type Resolved<T, Reason extends ListenerUnresolved> =
  | { readonly kind: "resolved"; readonly value: T }
  | { readonly kind: "unresolved"; readonly reason: Reason; readonly message: string };

export function tlsJudge(resources: ResourceSet): JudgeTls {
  const isPermitted = referencePermissions(resources.ReferenceGrant);
  const secrets = indexByName(resources.Secret);
  const configMaps = indexByName(resources.ConfigMap);

  /** Follows a reference to an object of the core group, whose kind is known to be right. */
  function follow<Object, T, Reason extends ListenerUnresolved>(
    owner: ListenerOwner,
    ref: { readonly kind: string; readonly name: string; readonly namespace?: string | undefined },
    reason: Reason,
    find: (name: string) => Object | undefined,
    read: (object: Object) => Read<T>,
  ): Resolved<T, Reason | "RefNotPermitted"> {
    const { kind, name } = ref;
    const namespace = ref.namespace ?? owner.metadata.namespace;
    const from = { group: gatewayGroup, kind: owner.kind, namespace: owner.metadata.namespace };
    if (!isPermitted(from, { group: "", kind, namespace, name })) {
      const message = `${kind} ${namespace}/${name} is in another namespace, and no ReferenceGrant there permits it`;
      return { kind: "unresolved", reason: "RefNotPermitted", message };
    }
    const object = find(`${namespace}/${name}`);
    const result: Read<T> =
      object === undefined
        ? { kind: "unreadable", message: `${kind} ${namespace}/${name} does not exist` }
        : read(object);
    if (result.kind === "read") return { kind: "resolved", value: result.value };
    return { kind: "unresolved", reason, message: result.message };
  }

  function certificateOf(
    owner: ListenerOwner,
    ref: SecretReference,
  ): Resolved<Certificate, "InvalidCertificateRef" | "RefNotPermitted"> {
    if (ref.group !== "" || ref.kind !== "Secret") {
      const message = `kind ${ref.kind} (group "${ref.group}") holds no certificate, accepted is Secret`;
      return { kind: "unresolved", reason: "InvalidCertificateRef", message };
    }
    return follow(owner, ref, "InvalidCertificateRef", (name) => secrets.get(name), readCertificate);
  }

  function authoritiesOf(
    gateway: Gateway,
    ref: ValidationRef,
  ): Resolved<string, "InvalidCACertificateRef" | "InvalidCACertificateKind" | "RefNotPermitted"> {
    if (ref.group !== "" || ref.kind !== "ConfigMap") {
      const message = `kind ${ref.kind} (group "${ref.group}") holds no authorities, accepted is ConfigMap`;
      return { kind: "unresolved", reason: "InvalidCACertificateKind", message };
    }
    return follow(gateway, ref, "InvalidCACertificateRef", (name) => configMaps.get(name), readAuthorities);
  }

  return (gateway, owner, listener, path) => {
    const options = judgeTlsOptions(listener.tls?.options ?? {}, [...path, "tls", "options"]);
    const certificates = resolveAll(listener.tls?.certificateRefs ?? [], [...path, "tls", "certificateRefs"], (ref) =>
      certificateOf(owner, ref),
    );
    const validation = validationOf(gateway, listener.port);
    // A ListenerSet's status tells of its Gateway's faults, but they stand in another manifest.
    const refsPath = owner === gateway ? validation?.path : undefined;
    const authorities = resolveAll(validation?.refs ?? [], refsPath, (ref) => authoritiesOf(gateway, ref), path);
    const refusals: JudgedTls["refusals"] = [
      ...options.refusals,
      ...(validation !== undefined && authorities.values.length === 0
        ? [{ reason: "NoValidCACertificate" as const, message: noAuthority, path: refsPath ?? path }]
        : []),
    ];
    const isServed = refusals.length === 0 && certificates.values.length > 0;
    const clientValidation: ClientValidation | undefined =
      validation === undefined ? undefined : { authorities: authorities.values.join("\n"), mode: validation.mode };
    return {
      tls: isServed
        ? { certificates: certificates.values, ...options.options, ...(clientValidation && { clientValidation }) }
        : undefined,
      refusals,
      unresolved: [...certificates.unresolved, ...authorities.unresolved],
      unserved: options.unserved,
    };
  };
}

const noAuthority = "no certificate of an authority can be used to validate its clients";

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
function validationOf({ spec }: Gateway, port: number): Validation | undefined {
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
function resolveAll<Ref, T, Reason extends ListenerUnresolved>(
  refs: readonly Ref[],
  listPath: FieldPath | undefined,
  resolve: (ref: Ref) => Resolved<T, Reason>,
  elsewhere: FieldPath = [],
): { readonly values: readonly T[]; readonly unresolved: readonly Finding<Reason>[] } {
  const values: T[] = [];
  const unresolved: Finding<Reason>[] = [];
  refs.forEach((ref, index) => {
    const resolved = resolve(ref);
    const path = listPath === undefined ? elsewhere : [...listPath, index];
    if (resolved.kind === "resolved") values.push(resolved.value);
    else unresolved.push({ reason: resolved.reason, message: resolved.message, path });
  });
  return { values, unresolved };
}
