/** A login service for the example: a new pair of keys, and tokens that they sign (RFC 7519, ES256). */
import { generateKeyPairSync, sign } from "node:crypto";

export interface Login {
  /** The manifest of the ConfigMap with the public key. */
  readonly manifest: string;
  /** Signs a token of the issuer; `claims` adds to `iss`, `aud` and `exp`. */
  token(claims: Readonly<Record<string, unknown>>, nowSeconds: number): string;
}

/** Creates the keys. The private one is only in memory. */
export function createLogin(): Login {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = { ...publicKey.export({ format: "jwk" }), kid: "demo", alg: "ES256", use: "sig" };
  const manifest = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "login-keys", namespace: "default" },
    data: { jwks: JSON.stringify({ keys: [key] }) },
  };
  return {
    manifest: `${JSON.stringify(manifest, undefined, 2)}\n`,
    token(claims, nowSeconds) {
      const required = { iss: "https://login.example.com", aud: "chat", exp: nowSeconds + 3_600 };
      const text = `${encode({ alg: "ES256", kid: "demo" })}.${encode({ ...required, ...claims })}`;
      const signature = sign("sha256", Buffer.from(text), { key: privateKey, dsaEncoding: "ieee-p1363" });
      return `${text}.${signature.toString("base64url")}`;
    },
  };
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
