/** The address at the other end of a connection, as people and limits know it. */
import type { Socket } from "node:net";
import { shortAddress } from "@gatewayproxy/runtime/ip-address";

/**
 * The IP address of the peer in its one spelling: a socket that listens on IPv6 and IPv4 together writes an IPv4 peer as
 * mapped (RFC 4291 §2.5.5.2), and a link-local one with its zone. Empty when the peer has gone already.
 */
export function peerAddress({ remoteAddress = "" }: Pick<Socket, "remoteAddress">): string {
  return shortAddress(remoteAddress) ?? "";
}
