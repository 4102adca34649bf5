import { expect, test } from "vitest";
import { clientAddress } from "./client-address.ts";

const forwarded = ["Host", "a", "X-Forwarded-For", "198.51.100.9, 192.0.2.1", "x-forwarded-for", " 10.0.0.1 "];

test.each([
  [0, "127.0.0.1"],
  [1, "10.0.0.1"],
  [2, "192.0.2.1"],
  [3, "198.51.100.9"],
  [4, "198.51.100.9"],
])("%i trusted hops: the address that the farthest of them has seen", (hops, address) => {
  expect(clientAddress(forwarded, "127.0.0.1", hops)).toBe(address);
});

test.each([[["host", "a"]], [["x-forwarded-for", ""]], [["x-forwarded-for", " , "]]])(
  "without the field it is the peer: %j",
  (rawHeaders) => {
    expect(clientAddress(rawHeaders, "127.0.0.1", 1)).toBe("127.0.0.1");
  },
);

test.each([
  ["192.0.2.1:4711", "192.0.2.1"],
  ["2001:DB8:0:0::1", "2001:db8::1"],
  ["[2001:db8::1]", "2001:db8::1"],
  ['"[2001:db8::1]:4711"', "2001:db8::1"],
  ["fe80::1%eth0", "fe80::1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["unknown", "127.0.0.1"],
  ["192.0.2.1.5", "127.0.0.1"],
])("a member %s is %s", (member, address) => {
  expect(clientAddress(["x-forwarded-for", member], "127.0.0.1", 1)).toBe(address);
});
