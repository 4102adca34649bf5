/** Where a request comes from when proxies of ours stand in front: each adds the address of its peer to X-Forwarded-For. */
import { shortAddress } from "@gatewayproxy/runtime/ip-address";
import { isName } from "./hop-by-hop.ts";

/**
 * The address that the farthest trusted proxy has seen, in its one spelling. What stands in the field beyond that is
 * hearsay. A field that is shorter than it should be names the farthest address that it has. The peer's address stands in
 * for a field that is missing and for a member that is no address (`unknown`).
 *
 * @param peer address of the connection's other end.
 * @param trustedHops proxies between the client and us that are trusted; 0 trusts nothing that is said.
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

/** The address of a member, which some proxies write with a port, in brackets or in quotes (`"[2001:db8::1]:4711"`). */
function addressIn(member: string): string | undefined {
  const [, inBrackets, withPort] = /^"?(?:\[([^\]]*)\](?::\d*)?|([\d.]+):\d+)"?$/.exec(member) ?? [];
  return shortAddress(inBrackets ?? withPort ?? member.replaceAll('"', ""));
}
