import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { readKeySet, verifies } from "./json-web-keys.ts";

const jwkOf = (bits: number) => generateKeyPairSync("rsa", { modulusLength: bits }).publicKey.export({ format: "jwk" });
const rsa = jwkOf(2_048);
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" });
const setOf = (...keys: readonly object[]) => readKeySet(JSON.stringify({ keys }));

describe("a key set", () => {
  test("keeps public members only", () => {
    expect(setOf({ ...ec, kid: "one", use: "sig", "x-other": 1 })).toEqual({
      kind: "read",
      keys: [{ kty: "EC", crv: "P-256", x: ec.x, y: ec.y, kid: "one" }],
      leftOut: [],
    });
  });

  test.each([
    [
      "a shared secret",
      { kty: "oct", k: "c2VjcmV0", alg: "HS256" },
      "keys[0] is of type oct, accepted are RSA, EC and OKP",
    ],
    ["a key for encryption", { ...rsa, use: "enc" }, "keys[0] is not for signatures (use)"],
    [
      "an algorithm of another type",
      { ...rsa, alg: "HS256" },
      "keys[0] has the algorithm HS256, which its type does not support",
    ],
    ["a short key", jwkOf(1_024), "keys[0] has 1024 bits, accepted are 2048 to 8192"],
    ["a long exponent", { ...rsa, e: rsa.n }, "keys[0] has an exponent of more than 32 bits"],
    ["an unsupported curve", { ...ec, crv: "secp256k1" }, "keys[0] has the curve secp256k1, which is not supported"],
    ["a point that is not on the curve", { ...ec, y: ec.x }, "keys[0] is not a valid key"],
    ["a missing member", { kty: "RSA", e: "AQAB" }, "keys[0] lacks a member, or has one that is not text"],
  ])("leaves out %s", (_, key, message) => {
    expect(setOf(key, rsa)).toMatchObject({ kind: "read", keys: [{ kty: "RSA" }], leftOut: [message] });
    expect(setOf(key)).toEqual({ kind: "malformed", error: `has no public key for signatures: ${message}` });
  });

  test.each(["", "[]", "{}", '{"keys":{}}', "null"])("cannot be %j", (text) => {
    expect(readKeySet(text)).toMatchObject({ kind: "malformed" });
  });

  test("may be empty, when an issuer withdraws all keys", () => {
    expect(setOf()).toEqual({ kind: "read", keys: [], leftOut: [] });
  });

  test("has at most 100 keys", () => {
    expect(setOf(...Array.from({ length: 101 }, () => rsa))).toMatchObject({ kind: "malformed" });
  });
});

test("a key with an algorithm verifies no other", () => {
  const key = { kty: "RSA", alg: "RS256" } as const;
  expect(verifies(key, "RS256")).toBe(true);
  expect(verifies(key, "PS256")).toBe(false);
  expect(verifies({ kty: "RSA" }, "PS256")).toBe(true);
  for (const algorithm of ["none", "HS256", "ES256", "EdDSA"]) expect(verifies({ kty: "RSA" }, algorithm)).toBe(false);
});
