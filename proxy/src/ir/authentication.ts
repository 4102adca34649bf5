/** Authentication of requests (ProxyPolicy `spec.traffic.authentication`). */
/** The authentication of one policy at one of its targets. Every one that applies to a rule is checked. */
export interface Authentication {
  /** `namespace/name` of the ProxyPolicy. */
  readonly policy: string;
  /** `HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section` where the policy names one. */
  readonly target: string;
  /** `Optional` serves requests without a valid credential, without an identity. */
  readonly mode: "Required" | "Optional";
  /** Issuers of tokens; any of them may accept one. Empty: tokens are not read. */
  readonly issuers: readonly TokenIssuer[];
  /** Absent: API keys are not read. */
  readonly apiKeys?: ApiKeys;
  /** Whether the credentials that it reads are forwarded to the backend. */
  readonly forward: "Keep" | "Remove";
}

/** An issuer of JSON Web Tokens. */
export interface TokenIssuer {
  /** The value of the claim `iss`. */
  readonly issuer: string;
  /** Values of which the claim `aud` has one; absent: it is not compared. */
  readonly audiences?: readonly string[];
  readonly keys: KeySource;
}

/** Where the public keys of an issuer are. */
export type KeySource =
  /** Read by the workers; `http:` for loopback addresses only. */
  | { readonly kind: "uri"; readonly uri: string }
  | { readonly kind: "keys"; readonly keys: readonly PublicJwk[] }
  /** The configuration has none, so no token can be verified. */
  | { readonly kind: "none" };

/** A public key for signatures (RFC 7517), reduced to what verifies: it never holds private members. */
export interface PublicJwk {
  readonly kty: "RSA" | "EC" | "OKP";
  readonly kid?: string;
  /** Restricts the key to this algorithm; absent: every algorithm of its type. */
  readonly alg?: string;
  /** RSA: modulus and exponent. */
  readonly n?: string;
  readonly e?: string;
  /** EC and OKP: curve and point. */
  readonly crv?: string;
  readonly x?: string;
  readonly y?: string;
}

/** API keys, and the header fields that may hold one. */
export interface ApiKeys {
  /** In order; names in lower case. */
  readonly from: readonly ApiKeySource[];
  /** Sorted by Secret. */
  readonly keys: readonly ApiKey[];
}

/** A header field that may hold an API key. */
export interface ApiKeySource {
  /** In lower case. */
  readonly header: string;
  /** Precedes the key in the value; absent: the value is the key. */
  readonly prefix?: string;
}

/** One API key. */
export interface ApiKey {
  /** SHA-256 of the key in base64, in the shape that dumps redact. The key itself is not part of a snapshot. */
  readonly sha256: { readonly secret: string };
  /** The Secret that holds it. */
  readonly source: { readonly namespace: string; readonly name: string };
  /** Annotations and labels of the Secret, with `name` and `namespace`. */
  readonly attributes: Readonly<Record<string, string>>;
}
