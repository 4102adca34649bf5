/** The normalized address of the peer of a connection, for logs and limits. */
import type { Socket } from "node:net";
import { shortAddress } from "@gatewayproxy/runtime/ip-address";

/**
 * Returns the IP address of the peer in its canonical form. A socket that listens on both IPv6 and IPv4 reports an IPv4
 * peer as a mapped address (RFC 4291 §2.5.5.2), and a link-local one with its zone. Returns the empty string if the
 * peer has disconnected.
 */
export function peerAddress({ remoteAddress = "" }: Pick<Socket, "remoteAddress">): string {
  return shortAddress(remoteAddress) ?? "";
}
