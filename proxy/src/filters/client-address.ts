/** Where a request comes from when proxies of ours stand in front: each adds the address of its peer to X-Forwarded-For. */
import { isName } from "./hop-by-hop.ts";

/**
 * The address that the farthest trusted proxy has seen. What stands in the field beyond that is hearsay. A field that is
 * shorter than it should be names the farthest address that it has; one that is missing leaves the peer's.
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
  return addresses.at(-Math.min(trustedHops, addresses.length)) ?? peer;
}
