/** The client address behind trusted proxies, each of which appends the address of its peer to X-Forwarded-For. */
import { shortAddress } from "@gatewayproxy/runtime/ip-address";
import { isName } from "./hop-by-hop.ts";

/**
 * Returns the address that the farthest trusted proxy has seen, in normalized form. Members before it in the field are
 * not trusted. Where the field has fewer members than trusted hops, the first one is used. The peer's address replaces
 * a missing field, and a member that is not an address (`unknown`).
 *
 * @param peer address of the other end of the connection.
 * @param trustedHops trusted proxies between the client and the gateway; with 0 the field is ignored.
 */
export function clientAddress(rawHeaders: readonly string[], peer: string, trustedHops: number): string {
  if (trustedHops === 0) return peer;
  let chain = "";
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length !== 15 || !isName(name, "x-forwarded-for")) continue;
    chain = chain === "" ? (rawHeaders[at + 1] ?? "") : `${chain},${rawHeaders[at + 1] ?? ""}`;
  }
  const addresses = chain
    .split(",")
    .map((address) => address.trim())
    .filter((address) => address !== "");
  return addressIn(addresses.at(-Math.min(trustedHops, addresses.length)) ?? "") ?? peer;
}

/** Parses a member, which some proxies write with a port, in brackets or in quotes (`"[2001:db8::1]:4711"`). */
function addressIn(member: string): string | undefined {
  const [, inBrackets, withPort] = /^"?(?:\[([^\]]*)\](?::\d*)?|([\d.]+):\d+)"?$/.exec(member) ?? [];
  return shortAddress(inBrackets ?? withPort ?? member.replaceAll('"', ""));
}
