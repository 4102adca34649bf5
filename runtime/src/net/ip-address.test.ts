import { isIP, SocketAddress } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalAddress, literalAddress, networkOf, shortAddress, specialKind } from "./ip-address.ts";

/** Any IPv4 address, as 32 bits. */
const bits = fc.integer({ min: 0, max: 0xffff_ffff });
const dotted = (address: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
const groupsOf = (address: number): string =>
  `${Math.floor(address / 65_536).toString(16)}:${(address % 65_536).toString(16)}`;
const inverted = (address: number): number => 0xffff_ffff - address;

/** RFC 6052 §2.2, with the prefix of RFC 8215: octet 8 is zero, and the octets behind the IPv4 address are `suffix`. */
function nat64Local(prefixLength: 48 | 56 | 64, address: number, suffix: number): string {
  const octets = [0x00, 0x64, 0xff, 0x9b, 0x00, 0x01, ...Array.from({ length: 10 }, () => 0)];
  const places = Array.from({ length: 16 - prefixLength / 8 }, (_, at) => prefixLength / 8 + at).filter(
    (at) => at !== 8,
  );
  const carried = [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256);
  for (const [at, place] of places.entries()) octets[place] = carried[at] ?? suffix;
  return Array.from({ length: 8 }, (_, at) =>
    ((octets[at * 2] ?? 0) * 256 + (octets[at * 2 + 1] ?? 0)).toString(16),
  ).join(":");
}

/** IPv6 addresses from which translators and tunnels take an IPv4 address. */
const carriers: readonly ((address: number) => string)[] = [
  (address) => `::ffff:${dotted(address)}`,
  (address) => `::FFFF:${groupsOf(address)}`,
  (address) => `0:0:0:0:0:ffff:${groupsOf(address)}`,
  (address) => `0000:0000:0000:0000:0000:ffff:${dotted(address)}`,
  (address) => `::ffff:0:${dotted(address)}`,
  (address) => `64:ff9b::${dotted(address)}`,
  (address) => `0064:FF9B::${groupsOf(address)}`,
  (address) => `64:ff9b:1::${dotted(address)}`,
  (address) => `2002:${groupsOf(address)}::1`,
  (address) => `2001:0:${groupsOf(address)}:0:0:f7f7:f7f7`,
  (address) => `2001:0:808:808:0:0:${groupsOf(inverted(address))}`,
  (address) => `2001:db8::5efe:${dotted(address)}`,
  (address) => `2001:db8::200:5efe:${dotted(address)}`,
];

const specialV4 = fc.oneof(
  fc.integer({ min: 0x7f00_0000, max: 0x7fff_ffff }),
  fc.integer({ min: 0xa9fe_0000, max: 0xa9fe_ffff }),
  fc.integer({ min: 0xe000_0000, max: 0xefff_ffff }),
  fc.integer({ min: 0, max: 0x00ff_ffff }),
  fc.constantFrom(0x7f00_0001, 0xa9fe_a9fe, 0xffff_ffff, 0x6464_64c8),
);

describe("special addresses", () => {
  test.each([
    ["0.0.0.0", "an unspecified"],
    ["::", "an unspecified"],
    ["127.0.0.1", "a loopback"],
    ["127.255.255.254", "a loopback"],
    ["::1", "a loopback"],
    ["0:0:0:0:0:0:0:1", "a loopback"],
    ["169.254.169.254", "a link-local"],
    ["fe80::1", "a link-local"],
    ["fe80::1%eth0", "a link-local"],
    ["febf:ffff::1", "a link-local"],
    ["fd00:ec2::254", "a cloud metadata"],
    ["fd20:ce::254", "a cloud metadata"],
    ["100.100.100.200", "a cloud metadata"],
    ["168.63.129.16", "a cloud metadata"],
    ["224.0.0.1", "a multicast"],
    ["ff02::1", "a multicast"],
    ["255.255.255.255", "a broadcast"],
    ["192.0.0.8", "a reserved"],
    ["192.88.99.1", "a reserved"],
    ["198.18.0.1", "a reserved"],
    ["198.19.255.255", "a reserved"],
    ["240.0.0.1", "a reserved"],
    ["2001:2::1", "a reserved"],
    ["2001:1f::1", "a reserved"],
    ["5f00::1", "a reserved"],
  ])("%s is %s address", (address, kind) => {
    expect(specialKind(address)).toBe(kind);
  });

  test.each([
    "10.0.0.1",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.0",
    "192.168.1.1",
    "172.16.0.1",
    "8.8.8.8",
    "100.64.0.1",
    "fd12::1",
    "2001:db8::1",
    "2606:4700::1",
  ])("%s is not special", (address) => {
    expect(specialKind(address)).toBeUndefined();
  });

  test("are found under the NAT64 prefix for local use, whatever follows them", () => {
    const carried = fc.constantFrom(0x7f00_0001, 0xa9fe_a9fe, 0xc612_0001, 0x6464_64c8);
    fc.assert(
      fc.property(carried, fc.constantFrom(48, 56, 64), fc.nat(255), (address, length, suffix) => {
        const text = nat64Local(length, address, suffix);
        expect(specialKind(text), text).toBeDefined();
      }),
    );
  });

  test("are those that the IANA registries list as not globally reachable, except private ones", () => {
    // The network, and its prefix length, as numbers.
    const registry = [
      [0x0000_0000, 8],
      [0x7f00_0000, 8],
      [0xa9fe_0000, 16],
      [0xc000_0000, 24],
      [0xc058_6300, 24],
      [0xc612_0000, 15],
      [0xe000_0000, 3],
    ] as const;
    const clouds = new Set([0x6464_64c8, 0xa83f_8110]);
    const near = fc
      .tuple(fc.constantFrom(...registry), fc.integer({ min: -131_072, max: 131_072 }))
      .map(([[network], offset]) => Math.min(0xffff_ffff, Math.max(0, network + offset)));
    fc.assert(
      fc.property(fc.oneof(bits, near), (address) => {
        const isListed = registry.some(
          ([network, length]) => Math.floor((address - network) / 2 ** (32 - length)) === 0,
        );
        expect(specialKind(dotted(address)) !== undefined, dotted(address)).toBe(isListed || clouds.has(address));
      }),
      { numRuns: 1_000 },
    );
  });

  test("are found in every IPv6 address that embeds them", () => {
    fc.assert(
      fc.property(specialV4, fc.constantFrom(...carriers), (address, carry) => {
        expect(isIP(carry(address))).toBe(6);
        expect(specialKind(dotted(address))).toBeDefined();
        expect(specialKind(carry(address))).toBeDefined();
      }),
    );
  });

  test("are not found where an ordinary address is embedded", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0x0a00_0000, max: 0x0aff_ffff }),
        fc.constantFrom(...carriers),
        (address, carry) => {
          expect(specialKind(carry(address))).toBeUndefined();
        },
      ),
    );
  });
});

describe("the canonical form", () => {
  test("is the same for all notations of an address", () => {
    const spellings = fc
      .tuple(fc.uint8Array({ minLength: 16, maxLength: 16 }), fc.boolean())
      .map(([bytes]): readonly [string, string] => {
        const groups = Array.from({ length: 8 }, (_, at) => ((bytes[at * 2] ?? 0) << 8) | (bytes[at * 2 + 1] ?? 0));
        const full = groups.map((group) => group.toString(16).padStart(4, "0").toUpperCase()).join(":");
        // Node's own notation is the shortest.
        return [full, new SocketAddress({ address: full, family: "ipv6" }).address];
      });
    fc.assert(
      fc.property(spellings, ([full, short]) => {
        expect(canonicalAddress(full)).toBeDefined();
        expect(canonicalAddress(short)).toBe(canonicalAddress(full));
      }),
    );
  });

  test("of an IPv4 address in IPv6 is the IPv4 address", () => {
    expect(canonicalAddress("::ffff:7f00:1")).toBe("127.0.0.1");
  });

  test.each(["", "localhost", "127.1", "1.2.3.4.5", "::g", "1.2.3.4:80"])("does not exist for %j", (text) => {
    expect(canonicalAddress(text)).toBeUndefined();
  });
});

describe("a host without DNS", () => {
  test("resolves every notation of inet_aton", () => {
    const radix = fc.constantFrom(
      (part: number) => String(part),
      (part: number) => `0x${part.toString(16)}`,
      (part: number) => `0X${part.toString(16).toUpperCase()}`,
      (part: number) => `0${part.toString(8)}`,
    );
    fc.assert(
      fc.property(
        bits,
        fc.integer({ min: 1, max: 4 }),
        fc.tuple(radix, radix, radix, radix),
        (address, parts, write) => {
          const octets = dotted(address).split(".").map(Number);
          const rest = address % 2 ** (8 * (5 - parts));
          const host = [...octets.slice(0, parts - 1), rest].map((part, at) => write[at]?.(part)).join(".");
          expect(literalAddress(host)).toBe(dotted(address));
        },
      ),
    );
  });

  test.each([
    ["localhost", "127.0.0.1"],
    ["LocalHost.", "127.0.0.1"],
    ["a.localhost", "127.0.0.1"],
    ["[::1]", "0:0:0:0:0:0:0:1"],
  ])("%s is %s", (host, address) => {
    expect(literalAddress(host)).toBe(address);
  });

  test.each(["backend.example", "localhost.example", "1.example", "999.999.999.999", "deadbeef", "4294967296"])(
    "%s is unknown",
    (host) => {
      expect(literalAddress(host)).toBeUndefined();
    },
  );
});

test.each([
  ["2001:0DB8:0:0::1", "2001:db8::1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["fe80::1%eth0", "fe80::1"],
  ["192.0.2.1", "192.0.2.1"],
  ["0:0:0:0:0:0:0:0", "::"],
  ["example.com", undefined],
])("%s is written %s", (text, short) => {
  expect(shortAddress(text)).toBe(short);
});

test.each([
  ["2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"],
  ["2001:db8:1:2ff:3:4:5:6", 56, "2001:db8:1:200::/56"],
  ["ffff::", 1, "8000::/1"],
  ["2001:db8::1", 128, "2001:db8::1"],
  ["::1", 64, "::/64"],
  ["::ffff:192.0.2.1", 64, "192.0.2.1"],
  ["64:ff9b::c000:201", 64, "192.0.2.1"],
  ["192.0.2.1", 64, "192.0.2.1"],
  ["", 64, ""],
  ["no:address", 64, "no:address"],
])("the network of %s by %i bits is %s", (address, bits, network) => {
  expect(networkOf(address, bits)).toBe(network);
});
