/** TLS towards a server: whom to ask for, whom to trust and to take it for, and what to show of ourselves. */
import { isIP } from "node:net";
import type { ConnectionOptions } from "node:tls";
import type { UpstreamTls } from "../ir/snapshot.ts";
import { identityCheck } from "./server-identity.ts";

export interface ClientTls extends Pick<ConnectionOptions, "checkServerIdentity" | "ca" | "cert" | "key"> {
  /** Empty where the server is known by an address, which cannot be asked for (RFC 6066 §3). */
  readonly servername: string;
}

/** As node:tls names it; what is absent has Node's default. @param host of the endpoint, as it is connected to. */
export function clientTls(host: string, tls: UpstreamTls): ClientTls {
  const { authorities, clientCertificate, subjectAltNames } = tls;
  const name = serverName(host, tls);
  return {
    servername: isIP(name) === 0 ? name : "",
    checkServerIdentity: identityCheck(name, subjectAltNames),
    ...(authorities !== undefined && { ca: authorities }),
    ...(clientCertificate !== undefined && { cert: clientCertificate.chain, key: clientCertificate.privateKey.secret }),
  };
}

/** The name that a server's certificate must be for, unless others stand in its place. */
export function serverName(host: string, { hostname = host }: UpstreamTls): string {
  return hostname;
}
