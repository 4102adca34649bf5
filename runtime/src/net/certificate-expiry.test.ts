import { expect, test } from "vitest";
import { expiryOf } from "./certificate-expiry.ts";

test("the text of OpenSSL is read as a time", () => {
  expect(expiryOf({ validTo: "Dec  4 15:00:01 2026 GMT" })).toEqual(new Date("2026-12-04T15:00:01Z"));
});

test("a time that OpenSSL cannot read is none", () => {
  expect(expiryOf({ validTo: "Bad time value" })).toBeUndefined();
});
