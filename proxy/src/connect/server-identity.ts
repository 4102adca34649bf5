/**
 * Checks whether a trusted certificate belongs to the intended server: by the server's name, or by a list of names that
 * replaces it (Gateway API `BackendTLSPolicyValidation.subjectAltNames`).
 */
import { X509Certificate } from "node:crypto";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import type { SubjectAltName } from "../ir/snapshot.ts";

/**
 * The `checkServerIdentity` of node:tls: returns undefined for a matching certificate. Never throws, because Node would
 * not catch the error.
 */
export type IdentityCheck = (hostname: string, certificate: PeerCertificate) => Error | undefined;

/**
 * Returns a check of the names of a certificate.
 *
 * @param serverName The host name or IP address. It is not used if there is a list.
 * @param accepted The list of names. The certificate must have at least one of them.
 * @param trust The trusted authorities: configured ones, or those of the system.
 */
export function identityCheck(
  serverName: string,
  accepted: readonly SubjectAltName[] | undefined,
  trust: "configured" | "system" = "system",
): IdentityCheck {
  // The name that node:tls passes is not used, because it is empty for an address.
  const check = (certificate: PeerCertificate): Error | undefined => {
    if (accepted !== undefined) return checkNames(certificate, accepted);
    const error = checkServerIdentity(serverName, certificate);
    const isCovered =
      error !== undefined && trust === "configured" && matchesNamespaceWildcard(serverName, certificate);
    return isCovered ? undefined : error;
  };
  return (_hostname, certificate) => {
    try {
      return check(certificate);
    } catch (error) {
      // Node throws on names that it cannot parse.
      return new Error(`the names of the certificate cannot be read: ${String(error)}`);
    }
  };
}

/**
 * Whether the name is `service.namespace` and the certificate has the name `*.namespace`, like the certificates of
 * Envoy Gateway. Node rejects a wildcard directly below a single label, because such a label is a top-level domain on
 * the internet.
 */
function matchesNamespaceWildcard(serverName: string, { raw }: PeerCertificate): boolean {
  const [service = "", namespace = "", ...more] = serverName.split(".");
  if (service === "" || namespace === "" || more.length > 0) return false;
  return hasName(new X509Certificate(raw), { kind: "dns", value: `*.${namespace}` });
}

function checkNames({ raw }: PeerCertificate, accepted: readonly SubjectAltName[]): Error | undefined {
  const certificate = new X509Certificate(raw);
  if (accepted.some((name) => hasName(certificate, name))) return undefined;
  const acceptedNames = accepted.map(({ value }) => value).join(", ");
  return new Error(
    `the certificate has the names ${certificate.subjectAltName ?? "none"}, accepted is ${acceptedNames}`,
  );
}

function hasName(certificate: X509Certificate, { kind, value }: SubjectAltName): boolean {
  // An accepted wildcard matches only the same wildcard in the certificate. A wildcard in the certificate matches names
  // with one label more.
  if (kind === "dns" && !value.startsWith("*.")) {
    return certificate.checkHost(value, { subject: "never" }) !== undefined;
  }
  const type = kind === "dns" ? "DNS" : "URI";
  return namesOf(certificate).some((name) => name.type === type && isSame(kind, name.value, value));
}

/** DNS names are case-insensitive; paths of URIs are not. */
function isSame(kind: SubjectAltName["kind"], found: string, accepted: string): boolean {
  return kind === "dns" ? found.toLowerCase() === accepted.toLowerCase() : found === accepted;
}

/**
 * `DNS:a.example, URI:"a \"quoted\" one"`: Parses names such as these. Node quotes names that contain separators
 * (CVE-2021-44532).
 */
function namesOf({
  subjectAltName = "",
}: X509Certificate): readonly { readonly type: string; readonly value: string }[] {
  return [...subjectAltName.matchAll(/([^:,"]+):("(?:[^"\\]|\\.)*"|[^,]*)(?:, |$)/gy)].map(
    ([, type = "", value = ""]) => ({
      type,
      value: value.startsWith('"') ? String(JSON.parse(value)) : value,
    }),
  );
}
