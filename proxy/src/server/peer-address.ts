/** The address at the other end of a connection, as people and limits know it. */
import type { Socket } from "node:net";

/** A socket that listens on IPv6 and IPv4 together writes an IPv4 peer so (RFC 4291 §2.5.5.2). */
const mappedPrefix = "::ffff:";

/** The IP address of the peer; empty when it has gone already. */
export function peerAddress({ remoteAddress = "" }: Pick<Socket, "remoteAddress">): string {
  return withoutMapping(remoteAddress);
}

/** An IPv4 address as such, whatever wrote it as an IPv6 one. */
export function withoutMapping(address: string): string {
  return address.startsWith(mappedPrefix) ? address.slice(mappedPrefix.length) : address;
}
