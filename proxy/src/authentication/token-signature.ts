/**
 * Checks signatures of JSON Web Tokens (RFC 7515 §5.2) with `node:crypto`: quick ones at once, others on the threads of
 * Node (docs/adr/0051).
 */
import { constants, type KeyObject, type SignKeyObjectInput, verify } from "node:crypto";

/** How an algorithm of RFC 7518 §3.1 or RFC 9864 checks a signature. */
interface Scheme {
  /** Undefined if the algorithm hashes by itself. */
  readonly hash?: string;
  readonly options?: Omit<SignKeyObjectInput, "key">;
}

const { RSA_PKCS1_PSS_PADDING: padding, RSA_PSS_SALTLEN_DIGEST: saltLength } = constants;
const [probabilistic, fixedLength] = [{ padding, saltLength }, { dsaEncoding: "ieee-p1363" }] as const;

const schemes: ReadonlyMap<string, Scheme> = new Map<string, Scheme>([
  ["RS256", { hash: "sha256" }],
  ["RS384", { hash: "sha384" }],
  ["RS512", { hash: "sha512" }],
  ["PS256", { hash: "sha256", options: probabilistic }],
  ["PS384", { hash: "sha384", options: probabilistic }],
  ["PS512", { hash: "sha512", options: probabilistic }],
  ["ES256", { hash: "sha256", options: fixedLength }],
  ["ES384", { hash: "sha384", options: fixedLength }],
  ["ES512", { hash: "sha512", options: fixedLength }],
  ["EdDSA", {}],
  ["Ed25519", {}],
]);

/** The largest RSA key with quick checks. The time of a check grows with the square of the size. */
const maxQuickRsaBits = 4_096;

/**
 * Whether checks with a key take no longer than some 0.1 ms. To hand a check to another thread takes half of that on
 * the event loop.
 */
export function isQuickKey({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean {
  if (asymmetricKeyType === "rsa") return (asymmetricKeyDetails?.modulusLength ?? Infinity) <= maxQuickRsaBits;
  return asymmetricKeyType === "ed25519" || asymmetricKeyDetails?.namedCurve === "prime256v1";
}

/**
 * Whether a key signed a token. Checks at once, for keys of `isQuickKey`.
 *
 * @param token in compact form.
 * @param algorithm one of `tokenAlgorithms`, which the key supports. Another one verifies nothing.
 */
export function hasSignatureOf(token: string, algorithm: string, key: KeyObject): boolean {
  const scheme = schemes.get(algorithm);
  if (scheme === undefined) return false;
  const { signed, signature } = partsOf(token);
  try {
    return verify(scheme.hash, signed, { key, ...scheme.options }, signature);
  } catch {
    return false;
  }
}

/** As `hasSignatureOf`, on another thread. */
export function hasSlowSignatureOf(token: string, algorithm: string, key: KeyObject): Promise<boolean> {
  const scheme = schemes.get(algorithm);
  if (scheme === undefined) return Promise.resolve(false);
  const { signed, signature } = partsOf(token);
  return new Promise((resolve) => {
    verify(scheme.hash, signed, { key, ...scheme.options }, signature, (error, valid) => {
      resolve(error === null && valid);
    });
  });
}

function partsOf(token: string): { readonly signed: Buffer; readonly signature: Buffer } {
  const end = token.lastIndexOf(".");
  return {
    signed: Buffer.from(token.slice(0, end), "latin1"),
    signature: Buffer.from(token.slice(end + 1), "base64url"),
  };
}
