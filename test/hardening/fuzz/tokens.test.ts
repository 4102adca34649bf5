/**
 * Tokens are accepted only if `jose` accepts them too, and with the same claims: any header and payload, signed with
 * the key of the issuer or altered afterwards.
 */
import { constants, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import fc from "fast-check";
import { exportJWK, jwtVerify } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { readKeySet } from "../../../proxy/src/authentication/json-web-keys.ts";
import { FixedKeySet } from "../../../proxy/src/authentication/key-set.ts";
import { clockSkewMs } from "../../../proxy/src/authentication/token.ts";
import { TokenCache } from "../../../proxy/src/authentication/token-cache.ts";
import { TokenVerifier } from "../../../proxy/src/authentication/token-verifier.ts";
import { VerificationQueue } from "../../../proxy/src/authentication/verification-queue.ts";
import { claimsOf } from "../../../proxy/src/cel/identity.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz, type FuzzCase } from "../support/fuzz.ts";

const issuer = "https://login.example.com";
const audience = "chat";
const clock = new FakeClock();
const nowSeconds = Math.floor(clock.nowMs() / 1_000);

const [ec, rsa] = [
  (namedCurve: string) => generateKeyPairSync("ec", { namedCurve }).privateKey,
  () => generateKeyPairSync("rsa", { modulusLength: 2_048 }).privateKey,
];
const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };
const fixedLength = { dsaEncoding: "ieee-p1363" } as const;
/** How each algorithm signs (RFC 7518 §3, RFC 8037 §3.1). */
const algorithms = {
  RS256: { make: rsa, hash: "sha256", options: {} },
  RS384: { make: rsa, hash: "sha384", options: {} },
  RS512: { make: rsa, hash: "sha512", options: {} },
  PS256: { make: rsa, hash: "sha256", options: pss },
  PS384: { make: rsa, hash: "sha384", options: pss },
  PS512: { make: rsa, hash: "sha512", options: pss },
  ES256: { make: () => ec("P-256"), hash: "sha256", options: fixedLength },
  ES384: { make: () => ec("P-384"), hash: "sha384", options: fixedLength },
  ES512: { make: () => ec("P-521"), hash: "sha512", options: fixedLength },
  EdDSA: { make: () => generateKeyPairSync("ed25519").privateKey, hash: undefined, options: {} },
} as const;
type Algorithm = keyof typeof algorithms;
const names = Object.keys(algorithms) as Algorithm[];

const claims = { iss: issuer, sub: "alice", aud: audience, exp: nowSeconds + 600 };
const payloads = [
  claims,
  { ...claims, aud: ["other", audience], nbf: nowSeconds - 5, iat: nowSeconds - 5, groups: ["a", { b: [1, null] }] },
  { ...claims, exp: nowSeconds - clockSkewMs / 1_000, "": 1, constructor: "x" },
].map((payload) => JSON.stringify(payload));

interface TokenCase {
  /** The key that signs, and that a verifier has. */
  readonly algorithm: Algorithm;
  /** Latin1 texts of JSON, or nearly. */
  readonly header: string;
  readonly payload: string;
  /** Replaces a character of the token, at a fraction of its length; empty: leaves it. */
  readonly edit: string;
  readonly at: number;
  readonly [name: string]: FuzzCase | undefined;
}

const tokenCase: fc.Arbitrary<TokenCase> = fc.constantFrom(...names).chain((algorithm) =>
  fc.record({
    algorithm: fc.constant(algorithm),
    header: fc.oneof(
      { weight: 3, arbitrary: fc.constant(JSON.stringify({ alg: algorithm, kid: "1" })) },
      mutated(
        [{ alg: algorithm }, { alg: algorithm, crit: ["b64"], b64: false }, { typ: "JWT", alg: algorithm }].map(
          (head) => JSON.stringify(head),
        ),
        [
          ...names.map((name) => `"alg":"${name}",`),
          '"alg":"none",',
          '"alg":"HS256",',
          '"crit":["exp"],',
          '"kid":"2",',
        ],
      ),
    ),
    payload: fc.oneof(
      fc.constantFrom(...payloads),
      mutated(payloads, [
        '"exp":1e999,',
        '"exp":"9",',
        '"nbf":null,',
        '"iat":"x",',
        '"aud":{},',
        '"__proto__":{},',
        "\xff",
      ]),
    ),
    edit: fc.oneof(
      { weight: 2, arbitrary: fc.constant("") },
      fc.constantFrom("A", "Q", "_", "-", "+", "/", "=", ".", " ", "\n", "\0", "é", "AAAA", "="),
    ),
    at: fc.nat(10_000).map((n) => n / 10_000),
  }),
);

function encoded(text: string): string {
  return Buffer.from(text, "latin1").toString("base64url");
}

function signed({ algorithm, header, payload, edit, at }: TokenCase, key: KeyObject): string {
  const { hash, options } = algorithms[algorithm];
  const content = `${encoded(header)}.${encoded(payload)}`;
  const token = `${content}.${sign(hash, Buffer.from(content), { key, ...options }).toString("base64url")}`;
  if (edit === "") return token;
  const place = Math.floor(at * token.length);
  return token.slice(0, place) + edit + token.slice(place + 1);
}

/** A key pair with the verifier of an issuer that has it. */
interface AlgorithmKey {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly verifier: TokenVerifier;
}

async function keyOf(name: Algorithm): Promise<AlgorithmKey> {
  const privateKey = algorithms[name].make();
  const publicKey = createPublicKey(privateKey);
  const read = readKeySet(JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), alg: name, kid: "1" }] }));
  if (read.kind === "malformed") throw new Error(read.error);
  const keys = new FixedKeySet(read.keys);
  const services = { clock, cache: new TokenCache(), queue: new VerificationQueue() };
  const verifier = new TokenVerifier(services, [
    { issuer: { issuer, audiences: [audience], keys: { kind: "none" } }, keys },
  ]);
  return { privateKey, publicKey, verifier };
}

describe("a token", () => {
  const keys = new Map<Algorithm, AlgorithmKey>();
  beforeAll(async () => {
    for (const name of names) keys.set(name, await keyOf(name));
  });

  function has(algorithm: Algorithm): AlgorithmKey {
    const key = keys.get(algorithm);
    if (key === undefined) throw new Error(`no key for ${algorithm}`);
    return key;
  }

  async function accepted(token: string, algorithm: Algorithm) {
    const result = await has(algorithm).verifier.verify(token, "client");
    return result.kind === "accepted" ? result.claims : undefined;
  }

  /** The claims that `jose` accepts. It is asked for what our verifier demands beyond its defaults. */
  async function acceptedByJose(token: string, algorithm: Algorithm) {
    const options = { algorithms: [algorithm], issuer, audience, requiredClaims: ["exp"] };
    const times = { currentDate: new Date(clock.nowMs()), clockTolerance: clockSkewMs / 1_000 };
    try {
      const { payload } = await jwtVerify(token, has(algorithm).publicKey, { ...options, ...times });
      return claimsOf(payload);
    } catch {
      return undefined;
    }
  }

  test.each(names)("signed with %s is accepted", async (algorithm) => {
    const header = JSON.stringify({ alg: algorithm, kid: "1" });
    const token = signed({ algorithm, header, payload: payloads[0] ?? "", edit: "", at: 0 }, has(algorithm).privateKey);
    expect(await accepted(token, algorithm)).toEqual(claimsOf(claims));
    expect(await acceptedByJose(token, algorithm)).toEqual(claimsOf(claims));
  });

  fuzz("tokens", {
    arbitrary: tokenCase,
    quickRuns: 300,
    async check(value) {
      const token = signed(value, has(value.algorithm).privateKey);
      const ours = await accepted(token, value.algorithm);
      if (ours !== undefined) expect(ours).toEqual(await acceptedByJose(token, value.algorithm));
    },
  });
});
