/**
 * Reads credentials from resources: certificates with their keys, certificates of authorities, API keys of LLM
 * providers. It accepts what OpenSSL accepts when they are used, so that a condition reports an invalid one and nothing
 * else is affected. It does not check the expiry, which depends on the time and is visible to clients.
 */
import { createHash, createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { ConfigMap } from "../../api/config-map.ts";
import { type Secret, secretValue } from "../../api/secret.ts";
import type { AwsCredentials, Certificate, ClientCertificate } from "../../ir/snapshot.ts";
import { nameConstraintsIn } from "./name-constraints.ts";
import { nameKey } from "../index/object-names.ts";

/** A value, or the error of the object that should contain it, to follow its name in a sentence. */
export type Read<T> =
  | { readonly kind: "read"; readonly value: T }
  | { readonly kind: "malformed"; readonly error: string };

const secretType = "kubernetes.io/tls";
const chainField = "tls.crt";
const keyField = "tls.key";
/** The field of a ConfigMap or Secret with certificates of authorities. */
const authoritiesField = "ca.crt";
/** The field of a Secret with the API key of an LLM provider. */
const apiKeyField = "apiKey";

/**
 * Maximum number of certificates of a trust store, over all objects. Bundles of all public authorities have some 150.
 */
const maxAuthorities = 300;
/** Maximum length of their PEM texts together. That of such a bundle is 220 KiB. */
const maxAuthoritiesLength = 512 * 1024;
/** Maximum number of certificates in a handshake. Chains have two to four. */
const maxChain = 10;
/** Maximum length of a certificate in DER. Those with a hundred names have some 4 KiB. */
const maxCertificateBytes = 16 * 1024;
/** Maximum number of name constraints, and of names of an authority. A handshake compares each with each. */
const maxConstraints = 100;

/** Maximum length of an RSA key. The time of a handshake grows with its cube. */
const maxRsaBits = 4_096;

/** Reads the certificate of a listener or a Gateway, and its key. Fails if they do not match. */
export function readCertificate(secret: Secret): Read<Certificate> {
  const { type = "Opaque" } = secret;
  if (type !== secretType) return malformed(`is of type ${type}, accepted is ${secretType}`);
  const pair = readKeyPair(secret);
  if (pair.kind === "malformed") return pair;
  const hostnames = hostnamesOf(new X509Certificate(pair.value.chain));
  return { kind: "read", value: { source: nameKey(secret), ...pair.value, hostnames } };
}

/** Reads a certificate and its key from a Secret of any type. */
export function readKeyPair(secret: Secret): Read<ClientCertificate> {
  const chain = secretValue(secret, chainField);
  const key = secretValue(secret, keyField);
  if (chain === undefined) return malformed(`has no ${chainField}`);
  if (key === undefined) return malformed(`has no ${keyField}`);
  const certificate = attempt(() => new X509Certificate(chain));
  if (certificate === undefined) return malformed(`has a ${chainField} that is not a PEM certificate`);
  const privateKey = attempt((): KeyObject => createPrivateKey(key));
  if (privateKey === undefined) return malformed(`has a ${keyField} that is not a PEM private key`);
  const { modulusLength = 0 } = privateKey.asymmetricKeyDetails ?? {};
  if (modulusLength > maxRsaBits) {
    return malformed(`has a ${keyField} of ${modulusLength} bits, accepted for RSA are at most ${maxRsaBits}`);
  }
  const blocks = certificatesOf(chain);
  if (blocks.length > maxChain) return malformed(`has a ${chainField} of ${tooMany(blocks.length, maxChain)}`);
  const costly = blocks.slice(0, 1).flatMap((block) => sizeError(certificateIn(block)) ?? []);
  const costlyRest = blocks.slice(1).flatMap((block) => authorityError(certificateIn(block)) ?? []);
  const [error] = [...costly, ...costlyRest];
  if (error !== undefined) return malformed(`has a ${chainField} with a certificate ${error}`);
  if (!certificate.checkPrivateKey(privateKey)) {
    return malformed(`has a ${keyField} that does not match the first certificate of its ${chainField}`);
  }
  if (!isWhole(chain)) return malformed(`has a truncated ${chainField}`);
  // OpenSSL rejects invalid certificates in the rest of the chain, and short keys.
  if (attempt(() => createSecureContext({ cert: chain, key })) === undefined) {
    return malformed(`has a ${chainField} or ${keyField} that OpenSSL rejects`);
  }
  return { kind: "read", value: { chain, privateKey: { secret: key } } };
}

/** Reads the PEM text of one or more authorities. */
export function readAuthorities(object: ConfigMap | Secret): Read<string> {
  const text = object.kind === "Secret" ? secretValue(object, authoritiesField) : configMapValue(object);
  if (text === undefined) return malformed(`has no ${authoritiesField}`);
  const blocks = certificatesOf(text);
  if (blocks.length > maxAuthorities) {
    return malformed(`has a ${authoritiesField} of ${tooMany(blocks.length, maxAuthorities)}`);
  }
  if (text.length > maxAuthoritiesLength) {
    return malformed(
      `has a ${authoritiesField} of ${text.length} characters, accepted are at most ${maxAuthoritiesLength}`,
    );
  }
  if (blocks.length === 0) return malformed(`has a ${authoritiesField} that is not a PEM certificate`);
  for (const block of blocks) {
    const certificate = certificateIn(block);
    if (certificate === undefined) return malformed(`has a ${authoritiesField} that is not a PEM certificate`);
    const error = authorityError(certificate);
    if (error !== undefined) return malformed(`has a ${authoritiesField} with a certificate ${error}`);
  }
  // OpenSSL would accept the complete certificates without an error.
  if (!isWhole(text)) return malformed(`has a truncated ${authoritiesField}`);
  return { kind: "read", value: text };
}

/** The number of certificates in a text, by the name of its object. */
export type CertificateCounts = Map<string, { readonly pem: string; readonly count: number }>;

/** Bounds the authorities of a trust store, which may come from several objects. */
export class AuthorityBudget {
  readonly #counts: CertificateCounts;
  #certificates = 0;
  #length = 0;

  /** @param counts are kept there: thousands of trust stores may have the same authorities. */
  constructor(counts: CertificateCounts) {
    this.#counts = counts;
  }

  /**
   * Returns why these exceed the bound with the previous ones, to follow the name of their object; undefined if they
   * fit.
   *
   * @param name of the object.
   */
  rejection(pem: string, name: string): string | undefined {
    const certificates = this.#certificates + this.#countOf(pem, name);
    const length = this.#length + pem.length;
    if (certificates > maxAuthorities || length > maxAuthoritiesLength) {
      return `is not used: with the previous ones there are ${certificates} certificates of ${length} characters, accepted are at most ${maxAuthorities} of ${maxAuthoritiesLength}`;
    }
    this.#certificates = certificates;
    this.#length = length;
    return undefined;
  }

  #countOf(pem: string, name: string): number {
    const known = this.#counts.get(name);
    if (known?.pem === pem) return known.count;
    const count = certificatesOf(pem).length;
    this.#counts.set(name, { pem, count });
    return count;
  }
}

/** Reads the API key of an LLM provider. */
export function readApiKey(secret: Secret): Read<string> {
  const apiKey = secretValue(secret, apiKeyField);
  if (apiKey === undefined || apiKey === "") return malformed(`has no ${apiKeyField}`);
  // The key becomes a header value, in which other characters would be invalid or add another header.
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    return malformed(`has an ${apiKeyField} with other characters than visible ASCII`);
  }
  return { kind: "read", value: apiKey };
}

/** The keys of a Secret with credentials of AWS. */
const awsFields = { accessKeyId: "accessKeyId", secretAccessKey: "secretAccessKey", sessionToken: "sessionToken" };

/** The credentials for Bedrock: an API key, or keys that sign. */
export type BedrockCredentials = { readonly apiKey: string } | { readonly keys: AwsCredentials };

/** Reads the credentials for Bedrock: `apiKey`, or `accessKeyId` and `secretAccessKey`. */
export function readBedrockCredentials(secret: Secret): Read<BedrockCredentials> {
  const accessKeyId = secretValue(secret, awsFields.accessKeyId);
  if (accessKeyId === undefined) {
    const apiKey = readApiKey(secret);
    if (apiKey.kind === "read") return { kind: "read", value: { apiKey: apiKey.value } };
    return secretValue(secret, apiKeyField) === undefined
      ? malformed(`has neither ${apiKeyField} nor ${awsFields.accessKeyId}`)
      : apiKey;
  }
  if (secretValue(secret, apiKeyField) !== undefined) {
    return malformed(`has both ${apiKeyField} and ${awsFields.accessKeyId}, accepted is one of them`);
  }
  const secretAccessKey = secretValue(secret, awsFields.secretAccessKey);
  if (secretAccessKey === undefined || secretAccessKey === "") return malformed(`has no ${awsFields.secretAccessKey}`);
  const sessionToken = secretValue(secret, awsFields.sessionToken);
  // Both become parts of header values.
  if (!/^[\w]+$/.test(accessKeyId)) {
    return malformed(`has an ${awsFields.accessKeyId} that is not of letters and digits`);
  }
  if (sessionToken !== undefined && !/^[\x21-\x7e]+$/.test(sessionToken)) {
    return malformed(`has a ${awsFields.sessionToken} with other characters than visible ASCII`);
  }
  const keys: AwsCredentials = {
    accessKeyId: { secret: accessKeyId },
    secretAccessKey: { secret: secretAccessKey },
    ...(sessionToken !== undefined && { sessionToken: { secret: sessionToken } }),
  };
  return { kind: "read", value: { keys } };
}

function malformed(error: string): Read<never> {
  return { kind: "malformed", error };
}

function configMapValue({ data }: ConfigMap): string | undefined {
  return Object.hasOwn(data, authoritiesField) ? data[authoritiesField]?.trim() : undefined;
}

function tooMany(found: number, accepted: number): string {
  return `${found} certificates, accepted are at most ${accepted}`;
}

/** A cache of certificates by the hash of their text, since many objects have the same ones and are read often. */
const known = new Map<string, { readonly size: string | undefined; readonly authority: string | undefined }>();
const maxKnown = 4_096;

/** The errors of a certificate as a server certificate and as an authority; undefined if it is not a certificate. */
function certificateIn(block: string): ReturnType<typeof known.get> {
  const key = createHash("sha256").update(block).digest("base64");
  const before = known.get(key);
  if (before !== undefined) return before;
  const certificate = attempt(() => new X509Certificate(block));
  if (certificate === undefined) return undefined;
  const size = computeSizeError(certificate);
  const errors = { size, authority: size ?? constraintsErrorOf(certificate) };
  if (known.size >= maxKnown) known.clear();
  known.set(key, errors);
  return errors;
}

const sizeError = (certificate: ReturnType<typeof certificateIn>) => certificate?.size;
const authorityError = (certificate: ReturnType<typeof certificateIn>) => certificate?.authority;

function computeSizeError({ raw }: X509Certificate): string | undefined {
  if (raw.length > maxCertificateBytes) {
    return `of ${raw.length} bytes, accepted are at most ${maxCertificateBytes}`;
  }
  return undefined;
}

function constraintsErrorOf({ raw, subjectAltName = "" }: X509Certificate): string | undefined {
  const names = subjectAltName === "" ? 0 : subjectAltName.split(", ").length;
  const constraints = nameConstraintsIn(raw);
  if (names <= maxConstraints && constraints <= maxConstraints) return undefined;
  const found = constraints === Infinity ? "name constraints that cannot be read" : `${constraints} name constraints`;
  return `with ${names} names and ${found}, accepted are at most ${maxConstraints} of each`;
}

const [begin, end] = ["-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"];

/**
 * Returns the certificates of a PEM text, each with its boundaries. It searches without a regular expression, so that
 * the text cannot cause backtracking.
 */
function certificatesOf(pem: string): readonly string[] {
  const blocks: string[] = [];
  for (let at = pem.indexOf(begin); at !== -1; ) {
    const last = pem.indexOf(end, at);
    if (last === -1) break;
    blocks.push(pem.slice(at, last + end.length));
    at = pem.indexOf(begin, last);
  }
  return blocks;
}

/** Whether the last PEM block is complete (RFC 7468), so that a truncated text is not accepted. */
function isWhole(pem: string): boolean {
  const lines = pem.split("\n").map((line) => line.trim());
  const last = lines.findLast((line) => /^-----[A-Z]/.test(line)) ?? "";
  return last.startsWith("-----END ") && last.endsWith("-----");
}

/** Returns the DNS names of a certificate. Clients ignore its common name (RFC 9525 §2). */
function hostnamesOf({ subjectAltName = "" }: X509Certificate): readonly string[] {
  const names = subjectAltName.split(", ").flatMap((name) => /^DNS:([\w*.-]+)$/.exec(name)?.[1] ?? []);
  return [...new Set(names.map((name) => name.toLowerCase()))];
}

/** Messages of OpenSSL about invalid bytes do not help users. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
