import { expect, test } from "vitest";
import { AddressGuard, unrestricted } from "./address-rules.ts";

const admin = { host: "127.0.0.1", port: 15_000 };
const stats = { host: "::", port: 15_020 };
const machine = (): readonly string[] => ["127.0.0.1", "10.1.2.3", "fd12::3"];

test("denies its own addresses in every notation, even if they are allowed", () => {
  const guard = new AddressGuard({ own: [admin, stats], deniesSpecial: false, allowed: [admin, stats] }, machine);
  for (const { port } of [admin, stats]) {
    const local = [
      "127.0.0.1",
      "127.9.9.9",
      "0.0.0.0",
      "::",
      "::1",
      "::ffff:127.0.0.1",
      "::ffff:0:0",
      "10.1.2.3",
      "64:ff9b::10.1.2.3",
      "2002:a01:203::1",
    ];
    for (const address of [...local, "::ffff:10.1.2.3", "fd12:0::3"]) {
      expect(guard.denialReason(address, port), `${address} ${port}`).toMatch(/serves its operator/);
      expect(guard.denialReason(address, port + 1)).toBeUndefined();
    }
    for (const host of ["localhost", "2130706433", "0x7f.1", "0"]) {
      expect(guard.denialReasonOfHost(host, port)).toBeDefined();
    }
    expect(guard.denialReason("10.1.2.4", port)).toBeUndefined();
  }
});

test("denies special addresses except the exact address and port that is allowed", () => {
  const guard = new AddressGuard({
    own: [],
    deniesSpecial: true,
    allowed: [{ host: "127.0.0.1", port: 8_081 }],
  });
  expect(guard.denialReason("127.0.0.1", 8_081)).toBeUndefined();
  expect(guard.denialReason("::ffff:127.0.0.1", 8_081)).toBeUndefined();
  expect(guard.denialReasonOfHost("localhost", 8_081)).toBeUndefined();
  expect(guard.denialReason("127.0.0.1", 8_082)).toBe(
    "is a loopback address, which only the operator can allow (--allow-backend-address)",
  );
  expect(guard.denialReason("127.0.0.2", 8_081)).toBeDefined();
  expect(guard.denialReason("::1", 8_081)).toBeDefined();
  expect(guard.denialReason("169.254.169.254", 80)).toMatch(/a link-local address/);
  expect(guard.denialReason("fec0::1", 80)).toMatch(/a link-local address/);
  for (const reserved of ["240.0.0.1", "100::1"]) {
    expect(guard.denialReason(reserved, 80)).toMatch(/a reserved address/);
  }
  expect(guard.denialReason("10.0.0.1", 80)).toBeUndefined();
});

test("allows everything without rules", () => {
  expect(new AddressGuard(unrestricted).denialReason("127.0.0.1", 15_000)).toBeUndefined();
});
