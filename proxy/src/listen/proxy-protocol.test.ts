import { describe, expect, test } from "vitest";
import { readProxyHeader } from "./proxy-protocol.ts";

const signature = "\r\n\r\n\0\r\nQUIT\n";

/** A version 2 header; `block` is what follows the length. */
function binary(command: number, family: number, block: Buffer): Buffer {
  const length = Buffer.from([command, family, block.length >> 8, block.length & 0xff]);
  return Buffer.concat([Buffer.from(signature, "latin1"), length, block]);
}

const ipv4 = Buffer.from([192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 0x04, 0x01, 0xbb]);
const ipv6 = Buffer.concat([
  Buffer.from("20010db8000000000000000000000001", "hex"),
  Buffer.from("20010db8000000000000000000000002", "hex"),
  Buffer.from([0xdc, 0x04, 0x01, 0xbb]),
]);

describe("a header of either version has the client's address", () => {
  test.each([
    ["version 1, IPv4", Buffer.from("PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n"), "192.0.2.1"],
    ["version 1, IPv6", Buffer.from("PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n"), "2001:db8::1"],
    ["version 1, UNKNOWN", Buffer.from("PROXY UNKNOWN\r\n"), undefined],
    ["version 1, UNKNOWN with addresses", Buffer.from("PROXY UNKNOWN ::1 ::1 1 2\r\n"), undefined],
    ["version 2, IPv4", binary(0x21, 0x11, ipv4), "192.0.2.1"],
    ["version 2, IPv6", binary(0x21, 0x21, ipv6), "2001:db8::1"],
    ["version 2, with additions", binary(0x21, 0x11, Buffer.concat([ipv4, Buffer.alloc(64)])), "192.0.2.1"],
    ["version 2, LOCAL", binary(0x20, 0x00, Buffer.alloc(0)), undefined],
    ["version 2, unspecified family", binary(0x21, 0x00, Buffer.alloc(0)), undefined],
    ["version 2, Unix socket", binary(0x21, 0x31, Buffer.alloc(216)), undefined],
  ])("%s", (_, header, sourceAddress) => {
    const bytes = Buffer.concat([header, Buffer.from("GET / HTTP/1.1\r\n")]);
    expect(readProxyHeader(bytes)).toEqual({ value: { kind: "header", sourceAddress }, consumed: header.length });
  });
});

describe("an invalid header is detected as early as possible", () => {
  test.each([
    ["a request without one", "GET / HTTP/1.1\r\n"],
    ["a TLS handshake without one", "\x16\x03\x01\x02\x00"],
    ["an address of the other family", "PROXY TCP4 ::1 ::1 1 2\r\n"],
    ["no address", "PROXY TCP4 client server 1 2\r\n"],
    ["a port above 65535", "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n"],
    ["three ports", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n"],
    ["an unknown family", "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n"],
    ["a line without end", `PROXY ${"x".repeat(101)}`],
    ["version 3", `${signature}\x31\x11\0\0`],
    ["an unknown command", `${signature}\x22\x11\0\0`],
    ["a block too short for its family", `${signature}\x21\x11\0\x04\x01\x02\x03\x04`],
    ["a block above the maximum length", `${signature}\x21\x11\xff\xff`],
  ])("%s", (_, bytes) => {
    expect(readProxyHeader(Buffer.from(bytes, "latin1"))).toEqual({ value: { kind: "invalid" }, consumed: 0 });
  });
});

test.each([
  ["version 1", Buffer.from("PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n")],
  ["version 2", binary(0x21, 0x11, ipv4)],
])("a header of %s that arrives byte by byte is read when it is complete", (_, header) => {
  for (let length = 1; length < header.length; length++) {
    expect(readProxyHeader(header.subarray(0, length)), `${length} bytes`).toBeUndefined();
  }
  expect(readProxyHeader(header)?.consumed).toBe(header.length);
});
