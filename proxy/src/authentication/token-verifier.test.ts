import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { keySet, signingKey } from "../../../test/support/tokens.ts";
import { readKeySet } from "./json-web-keys.ts";
import { FixedKeySet, type KeyIndex, type KeySet } from "./key-set.ts";
import { TokenCache } from "./token-cache.ts";
import { TokenVerifier } from "./token-verifier.ts";
import { VerificationQueue } from "./verification-queue.ts";

const issuer = "https://login.example.com";

/** Algorithms whose signatures are checked on the event loop, and on other threads. */
const [quick, slow] = ["ES256", "ES512"] as const;

async function setUp(algorithm: string) {
  const key = await signingKey(algorithm);
  const read = readKeySet(keySet(key));
  if (read.kind === "malformed") throw new Error(read.error);
  const fixed = new FixedKeySet(read.keys);
  let lookups = 0;
  const keys: KeySet = {
    version: 0,
    get keys(): KeyIndex | undefined {
      lookups += 1;
      return fixed.keys;
    },
    refresh: () => undefined,
  };
  const clock = new FakeClock();
  const services = { clock, cache: new TokenCache(), queue: new VerificationQueue() };
  const verifier = new TokenVerifier(services, [{ issuer: { issuer, keys: { kind: "none" } }, keys }]);
  const exp = Math.floor(clock.nowMs() / 1_000) + 600;
  const sign = (sub: string) => key.sign({ iss: issuer, sub, exp });
  return { verifier, services, sign, lookups: () => lookups };
}

describe("a token verifier", () => {
  test("checks the signature of a token once, for requests at the same time and later ones", async () => {
    const { verifier, sign, lookups } = await setUp(slow);
    const token = await sign("alice");
    const results = await Promise.all(Array.from({ length: 20 }, async () => await verifier.verify(token, "client")));
    expect(new Set(results.map(({ kind }) => kind))).toEqual(new Set(["accepted"]));
    const looked = lookups();
    expect(verifier.verify(token, "client")).toMatchObject({ kind: "accepted" });
    expect(lookups()).toBe(looked);
  });

  test("checks a quick signature at once, and once", async () => {
    const { verifier, sign, lookups } = await setUp(quick);
    const token = await sign("alice");
    expect(verifier.verify(token, "client")).toMatchObject({ kind: "accepted" });
    expect(verifier.verify(token, "client")).toMatchObject({ kind: "accepted" });
    expect(lookups()).toBe(1);
  });

  test.each([quick, slow])("remembers an invalid signature of %s", async (algorithm) => {
    const { verifier, sign, lookups } = await setUp(algorithm);
    const [head, payload, signature = ""] = (await sign("alice")).split(".");
    const forged = `${head ?? ""}.${payload ?? ""}.${"A".repeat(signature.length)}`;
    expect(await verifier.verify(forged, "client")).toEqual({ kind: "rejected", fault: "signature" });
    const looked = lookups();
    expect(verifier.verify(forged, "client")).toEqual({ kind: "rejected", fault: "signature" });
    expect(lookups()).toBe(looked);
  });

  test("turns a client with too many slow checks away, and no other", async () => {
    const { verifier, sign } = await setUp(slow);
    const tokens = await Promise.all(Array.from({ length: 70 }, (_, index) => sign(`s${index}`)));
    const flood = tokens.slice(0, 69).map(async (token) => await verifier.verify(token, "flooding"));
    const other = verifier.verify(tokens[69] ?? "", "other");
    const kinds = (await Promise.all(flood)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "accepted")).toHaveLength(64);
    expect(await other).toMatchObject({ kind: "accepted" });
  });
});

test("rejected tokens do not evict accepted ones, and both are bounded", () => {
  const cache = new TokenCache();
  const untilMs = Number.POSITIVE_INFINITY;
  cache.set("valid", { result: { kind: "accepted", claims: new Map() }, untilMs, version: 0 }, 1_000);
  for (let index = 0; index < 50_000; index++) {
    cache.set(`bad ${index}`, { result: { kind: "rejected", fault: "signature" }, untilMs, version: 0 }, 16_384);
  }
  expect(cache.get("valid")).toBeDefined();
  expect(cache.size).toBeLessThanOrEqual(10_001);
  for (let index = 0; index < 50_000; index++) {
    cache.set(`good ${index}`, { result: { kind: "accepted", claims: new Map() }, untilMs, version: 0 }, 16_384);
  }
  // 4 MiB of tokens for each of two generations.
  expect(cache.size).toBeLessThanOrEqual(10_000 + 512);
});
