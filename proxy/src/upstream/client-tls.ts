/** TLS towards a server: whom to ask for, whom to trust and to take it for, and what to show of ourselves. */
import { isIP } from "node:net";
import { type ConnectionOptions, createSecureContext, type SecureContext } from "node:tls";
import { trustSystemAuthorities } from "@gatewayproxy/runtime/system-authorities";
import type { UpstreamTls } from "../ir/snapshot.ts";
import { identityCheck } from "./server-identity.ts";

export interface ClientTls extends Pick<ConnectionOptions, "checkServerIdentity" | "secureContext"> {
  /** Empty where the server is known by an address, which cannot be asked for (RFC 6066 §3). */
  readonly servername: string;
}

/**
 * Reading authorities takes up to some 10 ms and 1 MiB, so backends with the same authorities and client certificate share
 * a context.
 */
const contexts = new WeakMap<object, WeakMap<object, SecureContext>>();
/** Stand for absent authorities and an absent client certificate. */
const systemAuthorities = {};
const noCertificate = {};

/**
 * As node:tls names it; what is absent has Node's default.
 *
 * @param host of the endpoint, as it is connected to.
 * @param tls connections share a context if their authorities and client certificates are the same objects.
 * @throws where OpenSSL refuses the authorities or the certificate.
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
  const ofTrust = contexts.get(trust) ?? new WeakMap<object, SecureContext>();
  contexts.set(trust, ofTrust);
  const known = ofTrust.get(clientCertificate ?? noCertificate);
  if (known !== undefined) return known;
  if (authorities === undefined) trustSystemAuthorities();
  const context = createSecureContext({
    ...(authorities !== undefined && { ca: [...authorities] }),
    ...(clientCertificate !== undefined && { cert: clientCertificate.chain, key: clientCertificate.privateKey.secret }),
  });
  ofTrust.set(clientCertificate ?? noCertificate, context);
  return context;
}

/** The name that a server's certificate must be for, unless others stand in its place. */
export function serverName(host: string, { hostname = host }: UpstreamTls): string {
  return hostname;
}
