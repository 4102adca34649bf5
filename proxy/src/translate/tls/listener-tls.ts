/**
 * The TLS of a listener: its certificates, its options, and how client certificates on its port are validated (Gateway
 * API `ListenerTLSConfig`, `FrontendTLSConfig`). A reference that cannot be resolved does not affect the others. For an
 * object that has become malformed, its previous content is used. A listener is not served without a certificate, or if
 * client certificates are required and no authority can validate them.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../../api/gateway.ts";
import type { FieldPath } from "../../api/issue.ts";
import type { Listener, SecretReference } from "../../api/listener.ts";
import type { ListenerUnresolved } from "../../api/status.ts";
import type { Certificate, ClientValidation, ListenerTls } from "../../ir/snapshot.ts";
import type { TranslationContext } from "../context.ts";
import { isSecret, type ListenerOwner } from "../reference/owner-references.ts";
import { type Resolution, resolveConfigMap, resolveSecret } from "../reference/resolution.ts";
import { type Finding, findingOfReference, type Found } from "../status/finding.ts";
import type { FindingOf } from "../status/findings-table.ts";
import { type AuthorityReference, codeOfNoAuthority, openAuthorityBudget, resolveAuthorities } from "./authorities.ts";
import { noValidAuthority } from "./credentials.ts";
import { resolveTlsOptions } from "./tls-options.ts";

/**
 * The TLS of a listener; undefined if it cannot be served. If there is a finding that rejects the listener and TLS
 * nevertheless, TLS has the previous valid content.
 */
export type ResolvedTls = Found<ListenerTls | undefined, FindingOf<"Listener">["reason"]>;

/** Resolves the TLS of an HTTPS listener. @param path of the listener in its owner. */
export function* resolveListenerTls(
  context: TranslationContext,
  gateway: Gateway,
  owner: ListenerOwner,
  listener: Listener,
  path: FieldPath,
): Steps<ResolvedTls> {
  const options = resolveTlsOptions(listener.tls?.options ?? {}, [...path, "tls", "options"]);
  const refs = listener.tls?.certificateRefs ?? [];
  const certificates = yield* resolveAll(refs, [...path, "tls", "certificateRefs"], (ref) =>
    resolveCertificate(context, owner, ref),
  );
  const validation = yield* resolveValidation(context, gateway, owner, listener, path);
  const { value: clientValidation } = validation;
  const canValidate = clientValidation === undefined || clientValidation.authorities.length > 0;
  const isSupported = options.value !== undefined && canValidate && certificates.value.length > 0;
  const noCertificate: Finding<"InvalidCertificateRef"> = {
    reason: "InvalidCertificateRef",
    message: "it refers to no certificate",
    path: [...path, "tls"],
  };
  return {
    value: isSupported
      ? { certificates: certificates.value, ...options.value, ...(clientValidation && { clientValidation }) }
      : undefined,
    findings: [
      ...options.findings,
      ...(refs.length === 0 ? [noCertificate] : []),
      ...certificates.findings,
      ...validation.findings,
    ],
  };
}

/** Resolves a reference to a certificate and its key. */
export function resolveCertificate(
  context: TranslationContext,
  owner: ListenerOwner,
  ref: SecretReference,
): Resolution<Certificate, "InvalidCertificateRef" | "RefNotPermitted"> {
  const reason = "InvalidCertificateRef";
  if (isSecret(ref)) return resolveSecret(context, owner, ref, context.credentials.certificate, reason);
  const message = `kind ${ref.kind} (group "${ref.group}") contains no certificate, accepted is Secret`;
  return { kind: "unresolved", reason, message };
}

/** Resolves how client certificates on the port of a listener are validated; undefined if they are not. */
function* resolveValidation(
  context: TranslationContext,
  gateway: Gateway,
  owner: ListenerOwner,
  listener: Listener,
  path: FieldPath,
): Steps<Found<ClientValidation | undefined, ListenerUnresolved | "NoValidCACertificate">> {
  const validation = validationOf(gateway, listener.port);
  if (validation === undefined) return { value: undefined, findings: [] };
  // The status of a ListenerSet reports errors of its Gateway, but they are in another manifest.
  const listPath = owner === gateway ? validation.path : undefined;
  const budget = openAuthorityBudget(context.credentials);
  const { authorities: readAuthorities } = context.credentials;
  const resolve = (ref: AuthorityReference) =>
    resolveAuthorities(
      ref,
      `${ref.namespace ?? gateway.metadata.namespace}/${ref.name}`,
      budget,
      "InvalidCACertificateKind",
      () => resolveConfigMap(context, gateway, ref, readAuthorities, "InvalidCACertificateRef"),
    );
  const { value: authorities, findings } = yield* resolveAll(validation.refs, listPath, resolve, path);
  const none: Finding<"NoValidCACertificate"> = {
    reason: "NoValidCACertificate",
    message: noValidAuthority("its clients", authorities.length > 0),
    path: listPath ?? path,
    code: codeOfNoAuthority(findings),
  };
  return {
    value: { authorities, mode: validation.mode },
    findings: [
      ...(findings.length === validation.refs.length ? [none] : []),
      ...findings.map((finding) => withoutForeignNames(finding, gateway, owner)),
    ],
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

interface Validation {
  readonly mode: ClientValidation["mode"];
  readonly refs: readonly AuthorityReference[];
  readonly path: FieldPath;
}

/**
 * Returns how client certificates on a port are validated. Settings of the port replace the default, even empty ones.
 */
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
 * Resolves the references of a list. Returns the values of those that could be resolved.
 *
 * @param listPath of the list; absent if it is in another manifest.
 * @param elsewhere the path for findings in that case.
 */
function* resolveAll<Ref, T, Reason extends ListenerUnresolved>(
  refs: readonly Ref[],
  listPath: FieldPath | undefined,
  resolve: (ref: Ref) => Resolution<T, Reason>,
  elsewhere: FieldPath = [],
): Steps<Found<readonly T[], Reason>> {
  const value: T[] = [];
  const findings: Finding<Reason>[] = [];
  for (const [index, ref] of refs.entries()) {
    const resolved = resolve(ref);
    const path = listPath === undefined ? elsewhere : [...listPath, index];
    if (resolved.kind !== "unresolved") value.push(resolved.value);
    if (resolved.kind !== "resolved") findings.push(findingOfReference(resolved, path));
    // OpenSSL takes up to milliseconds to read a certificate.
    yield;
  }
  return { value, findings };
}
