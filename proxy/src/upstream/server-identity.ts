/**
 * Whether a certificate, signed by whom we trust, is that of the server that we meant: by the name that we asked for, or
 * by a list of names that stands in its place (Gateway API `BackendTLSPolicyValidation.subjectAltNames`).
 */
import { X509Certificate } from "node:crypto";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import type { SubjectAltName } from "../ir/snapshot.ts";

/** As node:tls asks it: undefined when the certificate is the right one. Never throws, as nothing would catch it there. */
export type IdentityCheck = (asked: string, certificate: PeerCertificate) => Error | undefined;

/**
 * @param serverName host name or IP address; judges where there is no list.
 * @param accepted of which the certificate must have at least one.
 * @param trust whose signatures are trusted: authorities that were configured, or those of the system.
 */
export function identityCheck(
  serverName: string,
  accepted: readonly SubjectAltName[] | undefined,
  trust: "configured" | "system" = "system",
): IdentityCheck {
  // Not by the name that node:tls gives: it is empty where the server is asked for by an address.
  const check = (certificate: PeerCertificate): Error | undefined => {
    if (accepted !== undefined) return checkNames(certificate, accepted);
    const fault = checkServerIdentity(serverName, certificate);
    const isCovered = fault !== undefined && trust === "configured" && isOfNamespace(serverName, certificate);
    return isCovered ? undefined : fault;
  };
  return (_asked, certificate) => {
    try {
      return check(certificate);
    } catch (error) {
      // Node refuses names that it cannot take apart by throwing.
      return new Error(`the names of the certificate cannot be read: ${String(error)}`);
    }
  };
}

/**
 * Whether `service.namespace` is covered by `*.namespace`, as certificates in a cluster have it, such as those of Envoy
 * Gateway. Node takes no wildcard right below a single label, since that is a top-level domain elsewhere.
 */
function isOfNamespace(serverName: string, { raw }: PeerCertificate): boolean {
  const [service = "", namespace = "", ...more] = serverName.split(".");
  if (service === "" || namespace === "" || more.length > 0) return false;
  return hasName(new X509Certificate(raw), { kind: "dns", value: `*.${namespace}` });
}

function checkNames({ raw }: PeerCertificate, accepted: readonly SubjectAltName[]): Error | undefined {
  const certificate = new X509Certificate(raw);
  if (accepted.some((name) => hasName(certificate, name))) return undefined;
  const wanted = accepted.map(({ value }) => value).join(", ");
  return new Error(`the certificate names ${certificate.subjectAltName ?? "nobody"}, accepted is ${wanted}`);
}

function hasName(certificate: X509Certificate, { kind, value }: SubjectAltName): boolean {
  // A wildcard that is asked for must stand in the certificate so; one that stands there covers names of one label.
  if (kind === "dns" && !value.startsWith("*."))
    return certificate.checkHost(value, { subject: "never" }) !== undefined;
  const type = kind === "dns" ? "DNS" : "URI";
  return namesOf(certificate).some((name) => name.type === type && isSame(kind, name.value, value));
}

/** DNS names have no case; a URI's path does. */
function isSame(kind: SubjectAltName["kind"], found: string, wanted: string): boolean {
  return kind === "dns" ? found.toLowerCase() === wanted.toLowerCase() : found === wanted;
}

/** `DNS:a.example, URI:"a \"quoted\" one"`: Node quotes what could be taken for the end of a name (CVE-2021-44532). */
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
