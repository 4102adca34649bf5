/** TLS options for connections to a server: its name, the trusted authorities, and the client certificate. */
import { isIP } from "node:net";
import { type ConnectionOptions, createSecureContext, type SecureContext } from "node:tls";
import { trustSystemAuthorities } from "@gatewayproxy/runtime/system-authorities";
import type { UpstreamTls } from "../ir/snapshot.ts";
import { identityCheck } from "./server-identity.ts";

/** Options for `tls.connect`. The context has the authorities and the client certificate. */
export interface ClientTls extends Pick<ConnectionOptions, "checkServerIdentity" | "secureContext"> {
  /** The name to send as SNI. Empty for an address, which SNI does not allow (RFC 6066 §3). */
  readonly servername: string;
}

/**
 * The contexts by authorities and client certificate. OpenSSL parses and stores all authorities for each context, so
 * equal backends share one.
 */
const contexts = new WeakMap<object, WeakMap<object, SecureContext>>();
/** Keys for absent authorities and for an absent client certificate. */
const systemAuthorities = {};
const noCertificate = {};

/**
 * Returns options for `tls.connect`. Absent options keep the defaults of Node.
 *
 * @param host The host name or IP address of the endpoint.
 * @param tls Connections share a context if their authorities and client certificates are the same objects.
 * @throws {Error} If OpenSSL rejects the authorities or the certificate.
 */
export function clientTls(host: string, tls: UpstreamTls): ClientTls {
  const name = serverName(host, tls);
  return {
    servername: isIP(name) === 0 ? name : "",
    checkServerIdentity: identityCheck(
      name,
      tls.subjectAltNames,
      tls.authorities === undefined ? "system" : "configured",
    ),
    secureContext: contextOf(tls),
  };
}

function contextOf(tls: UpstreamTls): SecureContext {
  const { authorities, clientCertificate } = tls;
  const trust = authorities ?? systemAuthorities;
  const contextsOfTrust = contexts.get(trust) ?? new WeakMap<object, SecureContext>();
  contexts.set(trust, contextsOfTrust);
  const existing = contextsOfTrust.get(clientCertificate ?? noCertificate);
  if (existing !== undefined) return existing;
  if (authorities === undefined) trustSystemAuthorities();
  const context = createSecureContext({
    ...(authorities !== undefined && { ca: [...authorities] }),
    ...(clientCertificate !== undefined && { cert: clientCertificate.chain, key: clientCertificate.privateKey.secret }),
  });
  contextsOfTrust.set(clientCertificate ?? noCertificate, context);
  return context;
}

/** Returns the name that the certificate of a server must have, unless `subjectAltNames` replace it. */
export function serverName(host: string, { hostname = host }: UpstreamTls): string {
  return hostname;
}
