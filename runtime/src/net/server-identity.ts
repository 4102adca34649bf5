/** Whom a client expects behind TLS, if its library writes the host of the server into the handshake. */
import { isIP } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";

/** The name in the handshake with a server that is known by its IP address. No certificate is for it. */
const nameOfAddresses = "ip-address.invalid";

/** The server that a client expects. */
export interface ServerIdentity {
  /** The name to write into the handshake in place of the host of the address; absent if the host can be written. */
  readonly handshakeName?: string;
  /** Returns an error if a certificate is not for the server. */
  readonly check: (certificate: PeerCertificate) => Error | undefined;
}

/**
 * Returns the identity of the server at `address`, a `host:port`, or of `serverName` in its place. Node rejects an IP
 * address in the handshake (RFC 6066 section 3), so the handshake with such a server has another name.
 */
export function serverIdentityOf(address: string, serverName: string | undefined): ServerIdentity {
  const host = serverName ?? address.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  const handshakeName = isIP(host) === 0 ? serverName : nameOfAddresses;
  return {
    ...(handshakeName !== undefined && { handshakeName }),
    check: (certificate) => checkServerIdentity(host, certificate),
  };
}
