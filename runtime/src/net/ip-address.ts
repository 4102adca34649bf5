/**
 * Canonical IP addresses, and the kinds of addresses that lead to the machine itself or to its link instead of a server
 * (RFC 6890).
 */
import { BlockList, isIP, isIPv4 } from "node:net";

/** A kind of special address, with its article, to stand before the word "address" in a message. */
export type SpecialKind =
  | "an unspecified"
  | "a loopback"
  | "a link-local"
  | "a cloud metadata"
  | "a multicast"
  | "a broadcast"
  | "a reserved";

/** The ranges of each kind; the first kind that matches applies. */
const specialRanges: readonly (readonly [SpecialKind, ...ranges: readonly string[]])[] = [
  ["an unspecified", "0.0.0.0/8", "::/128"],
  ["a loopback", "127.0.0.0/8", "::1/128"],
  ["a link-local", "169.254.0.0/16", "fe80::/10", "fec0::/10"],
  // Instance metadata services outside of the link-local range: Amazon EC2, Google Cloud, Alibaba, Azure, Oracle Cloud.
  [
    "a cloud metadata",
    ...["fd00:ec2::/32", "fd20:ce::/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"],
  ],
  ["a multicast", "224.0.0.0/4", "ff00::/8"],
  ["a broadcast", "255.255.255.255/32"],
  // Other ranges that the IANA special-purpose registries (RFC 6890) list as not globally reachable: protocol
  // assignments, 6to4 relays (RFC 7526), benchmarking, future use, discard, dummy, ORCHID and SRv6 SIDs. Private ranges
  // (10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7), which clusters use, and documentation ranges are left out.
  [
    "a reserved",
    ...["192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"],
    ...["100::/64", "100:0:0:1::/64", "2001:2::/48", "2001:10::/28", "5f00::/16"],
  ],
];

const special = specialRanges.map(([kind, ...ranges]) => {
  const list = new BlockList();
  for (const range of ranges) {
    const [network = "", prefix] = range.split("/");
    list.addSubnet(network, Number(prefix), isIPv4(network) ? "ipv4" : "ipv6");
  }
  return { kind, list };
});

/**
 * Returns the canonical form of an IP address: IPv4 as dotted decimals, also if it is mapped into IPv6 (RFC 4291
 * §2.5.5.2); IPv6 as eight groups without leading zeros. The zone is removed. Undefined for any other text.
 */
export function canonicalAddress(text: string): string | undefined {
  if (isIPv4(text)) return text;
  const groups = ipv6Groups(text);
  if (groups === undefined) return undefined;
  return isMapped(groups) ? ipv4Of(groups, 6) : groups.map((group) => group.toString(16)).join(":");
}

/** As `canonicalAddress`, with IPv6 in its compressed form (RFC 5952): `2001:db8::1`. */
export function shortAddress(text: string): string | undefined {
  const canonical = canonicalAddress(text);
  if (canonical === undefined || !canonical.includes(":")) return canonical;
  // A URL's host is in that form.
  return new URL(`http://[${canonical}]`).hostname.slice(1, -1);
}

/**
 * Returns the network of an IPv6 address, such as `2001:db8:1:2::/64`. For an IPv4 address, also in IPv6 (mapped, or
 * with the well-known NAT64 prefix, RFC 6052 §2.1), it returns the IPv4 address. Any other text is returned unchanged.
 *
 * @param prefixLength in bits, 1 to 128; 128 gives the address itself.
 */
export function networkOf(address: string, prefixLength: number): string {
  if (!address.includes(":")) return address;
  const groups = ipv6Groups(address);
  if (groups === undefined) return address;
  if (isMapped(groups) || isTranslated(groups)) return ipv4Of(groups, 6);
  const kept = groups.map((group, at) => group & groupMask(prefixLength - at * 16));
  const network = shortAddress(kept.map((group) => group.toString(16)).join(":")) ?? address;
  return prefixLength === 128 ? network : `${network}/${prefixLength}`;
}

/** Returns the mask of the first `bits` bits of a group: all bits if more than 16, none if less than 1. */
function groupMask(bits: number): number {
  return (0xffff << (16 - Math.min(16, Math.max(0, bits)))) & 0xffff;
}

function isTranslated(groups: readonly number[]): boolean {
  return groups[0] === 0x64 && groups[1] === 0xff9b && groups.slice(2, 6).every((group) => group === 0);
}

/**
 * Returns the special kind of an IP address, or of the IPv4 address that a translator or a tunnel would take from an
 * IPv6 address. Undefined for an ordinary address, and for text that is not an IP address.
 */
export function specialKind(text: string): SpecialKind | undefined {
  if (isIPv4(text)) return kindOf(text, "ipv4");
  const groups = ipv6Groups(text);
  if (groups === undefined) return undefined;
  const own = isMapped(groups) ? undefined : kindOf(withoutZone(text), "ipv6");
  if (own !== undefined) return own;
  for (const embedded of embeddedAddresses(groups)) {
    const kind = kindOf(embedded, "ipv4");
    if (kind !== undefined) return kind;
  }
  return undefined;
}

/** Returns the canonical address and the IPv4 addresses that a translator or a tunnel would take from it. */
export function addressesWithin(text: string): readonly string[] {
  const canonical = canonicalAddress(text);
  const groups = ipv6Groups(text);
  return [...(canonical === undefined ? [] : [canonical]), ...(groups === undefined ? [] : embeddedAddresses(groups))];
}

/**
 * Returns the IP address of a host that needs no DNS query: an IP address in any notation that a resolver accepts
 * (`2130706433`, `0x7f.1`), or `localhost` and its subdomains (RFC 6761 §6.3). Undefined for any other name.
 */
export function literalAddress(host: string): string | undefined {
  const canonical = canonicalAddress(host.replace(/^\[(.*)\]$/, "$1"));
  if (canonical !== undefined) return canonical;
  const name = host.toLowerCase().replace(/\.$/, "");
  if (name === "localhost" || name.endsWith(".localhost")) return "127.0.0.1";
  // The WHATWG URL parser reads numbers as inet_aton does: decimal, octal and hexadecimal, in one to four parts.
  if (!/^(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+)){0,3}$/.test(name) || !URL.canParse(`http://${name}/`)) {
    return undefined;
  }
  return canonicalAddress(new URL(`http://${name}/`).hostname);
}

function kindOf(address: string, family: "ipv4" | "ipv6"): SpecialKind | undefined {
  return special.find(({ list }) => list.check(address, family))?.kind;
}

/** Returns the IPv4 addresses in each IPv6 format that embeds one. */
function embeddedAddresses(groups: readonly number[]): readonly string[] {
  const [a, b, c, d, e, f] = groups;
  const startsWith = (...prefix: readonly number[]): boolean => prefix.every((group, at) => groups[at] === group);
  const tail = ipv4Of(groups, 6);
  return [
    // Mapped, compatible (RFC 4291 §2.5.5), translated (RFC 7915).
    ...(isMapped(groups) || startsWith(0, 0, 0, 0, 0, 0) || startsWith(0, 0, 0, 0, 0xffff, 0) ? [tail] : []),
    // NAT64: the well-known prefix (RFC 6052 §2.1), and the prefix for local use (RFC 8215).
    ...(startsWith(0x64, 0xff9b, 0, 0, 0, 0) ? [tail] : []),
    ...(a === 0x64 && b === 0xff9b && c === 1 ? locallyTranslated(groups) : []),
    // 6to4 (RFC 3056 §2).
    ...(a === 0x2002 ? [ipv4Of(groups, 1)] : []),
    // Teredo (RFC 4380 §4): the server, and the client with inverted bits.
    ...(a === 0x2001 && b === 0
      ? [
          ipv4Of(groups, 2),
          ipv4Of(
            groups.map((group) => group ^ 0xffff),
            6,
          ),
        ]
      : []),
    // ISATAP (RFC 5214 §6.1).
    ...((e === 0 || e === 0x200) && f === 0x5efe && d !== undefined ? [tail] : []),
  ];
}

/**
 * Returns the IPv4 addresses that 64:ff9b:1::/48 may embed with a prefix of 48, 56, 64 or 96 bits (RFC 6052 §2.2). The
 * address does not say which length applies. Octet 8 is skipped; translators ignore what follows the IPv4 address, so
 * it may have any value. Candidates with leading zeros belong to another prefix length.
 */
function locallyTranslated(groups: readonly number[]): readonly string[] {
  const octets = groups.flatMap((group) => [group >> 8, group & 255]);
  const layouts = [
    [6, 7, 9, 10],
    [7, 9, 10, 11],
    [9, 10, 11, 12],
    [12, 13, 14, 15],
  ];
  const read = layouts.map((positions) => positions.map((position) => octets[position] ?? 0).join("."));
  const possible = read.filter((address) => !address.startsWith("0."));
  return possible.length === 0 ? read.slice(-1) : possible;
}

function isMapped(groups: readonly number[]): boolean {
  return groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0);
}

/** Returns the IPv4 address in two groups, the first at index `at`. */
function ipv4Of(groups: readonly number[], at: number): string {
  const [high = 0, low = 0] = groups.slice(at);
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** Returns the eight groups of an IPv6 address; undefined for any other text. */
function ipv6Groups(text: string): readonly number[] | undefined {
  if (isIP(text) !== 6) return undefined;
  const hex = withoutZone(text).replace(/:(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...octets: readonly string[]) => {
    const [w, x, y, z] = octets.slice(0, 4).map(Number);
    return `:${pair(w, x)}:${pair(y, z)}`;
  });
  const [head = "", tail] = hex.split("::");
  const before = groupsOf(head);
  const after = groupsOf(tail ?? "");
  const gap = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array.from({ length: gap }, () => 0), ...after];
}

/** Removes the zone: `fe80::1` for `fe80::1%eth0`. */
function withoutZone(text: string): string {
  const zone = text.indexOf("%");
  return zone === -1 ? text : text.slice(0, zone);
}

function pair(high = 0, low = 0): string {
  return ((high << 8) | low).toString(16);
}

function groupsOf(text: string): readonly number[] {
  return text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
}
