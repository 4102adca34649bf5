/**
 * Checks signatures of JSON Web Tokens (RFC 7515 §5.2) with `node:crypto`, on the threads of Node (docs/adr/0051).
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

/**
 * Whether a key signed a token.
 *
 * @param token in compact form.
 * @param algorithm one of `tokenAlgorithms`, which the key supports. Another one verifies nothing.
 */
export function hasSignatureOf(token: string, algorithm: string, key: KeyObject): Promise<boolean> {
  const scheme = schemes.get(algorithm);
  if (scheme === undefined) return Promise.resolve(false);
  const end = token.lastIndexOf(".");
  const signed = Buffer.from(token.slice(0, end), "latin1");
  const signature = Buffer.from(token.slice(end + 1), "base64url");
  return new Promise((resolve) => {
    // An error says that the signature cannot be one of this key.
    verify(scheme.hash, signed, { key, ...scheme.options }, signature, (error, valid) => {
      resolve(error === null && valid);
    });
  });
}
