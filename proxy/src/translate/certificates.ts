/**
 * Credentials as resources hold them: certificates with their keys, certificates of authorities, API keys of LLM
 * providers. What is taken here is what OpenSSL takes when it is served, so that a bad one is told in a condition and
 * harms nobody else. Whether one has expired is not asked: that depends on the time, and a client sees it anyway.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { ConfigMap } from "../api/config-map.ts";
import { type Secret, secretValue } from "../api/secret.ts";
import type { Certificate, ClientCertificate } from "../ir/snapshot.ts";
import { nameKey } from "./object-names.ts";

/** A value, or what is wrong with the object that should hold it, to follow its name in a sentence. */
export type Read<T> =
  | { readonly kind: "read"; readonly value: T }
  | { readonly kind: "malformed"; readonly fault: string };

const secretType = "kubernetes.io/tls";
const chainField = "tls.crt";
const keyField = "tls.key";
/** Of a ConfigMap or a Secret that holds certificates of authorities. */
const authoritiesField = "ca.crt";
/** Of a Secret that holds an LLM provider's API key. */
const apiKeyField = "apiKey";

/** Certificates of one object: bundles of all public authorities have some 150. */
const maxCertificates = 300;

/** The longest RSA key. A handshake takes the proxy time with the cube of its length: 8 ms here, 300 ms for 16,384 bits. */
const maxRsaBits = 4_096;

/** Reads the certificate of a listener or a Gateway, and its key; they belong together when this succeeds. */
export function readCertificate(secret: Secret): Read<Certificate> {
  const { type = "Opaque" } = secret;
  if (type !== secretType) return malformed(`is of type ${type}, accepted is ${secretType}`);
  const pair = readKeyPair(secret);
  if (pair.kind === "malformed") return pair;
  const hostnames = hostnamesOf(new X509Certificate(pair.value.chain));
  return { kind: "read", value: { source: nameKey(secret), ...pair.value, hostnames } };
}

/** Reads a certificate and its key out of a Secret of any type. */
export function readKeyPair(secret: Secret): Read<ClientCertificate> {
  const chain = secretValue(secret, chainField);
  const key = secretValue(secret, keyField);
  if (chain === undefined) return malformed(`has no ${chainField}`);
  if (key === undefined) return malformed(`has no ${keyField}`);
  const certificate = attempt(() => new X509Certificate(chain));
  if (certificate === undefined) return malformed(`has a ${chainField} that is no PEM certificate`);
  const privateKey = attempt((): KeyObject => createPrivateKey(key));
  if (privateKey === undefined) return malformed(`has a ${keyField} that is no PEM private key`);
  const { modulusLength = 0 } = privateKey.asymmetricKeyDetails ?? {};
  if (modulusLength > maxRsaBits) {
    return malformed(`has a ${keyField} of ${modulusLength} bits, accepted for RSA are at most ${maxRsaBits}`);
  }
  const { length } = certificatesOf(chain);
  if (length > maxCertificates) return malformed(`has a ${chainField} of ${tooMany(length)}`);
  if (!certificate.checkPrivateKey(privateKey)) {
    return malformed(`has a ${keyField} that does not belong to the first certificate of its ${chainField}`);
  }
  if (!isWhole(chain)) return malformed(`has a ${chainField} that breaks off`);
  // The rest of the chain, and keys too short for today.
  if (attempt(() => createSecureContext({ cert: chain, key })) === undefined) {
    return malformed(`has a ${chainField} or ${keyField} that OpenSSL refuses`);
  }
  return { kind: "read", value: { chain, privateKey: { secret: key } } };
}

/** Reads the PEM text of one or more authorities. */
export function readAuthorities(object: ConfigMap | Secret): Read<string> {
  const text = object.kind === "Secret" ? secretValue(object, authoritiesField) : configMapValue(object);
  if (text === undefined) return malformed(`has no ${authoritiesField}`);
  const blocks = certificatesOf(text);
  if (blocks.length > maxCertificates) return malformed(`has a ${authoritiesField} of ${tooMany(blocks.length)}`);
  const isValid = attempt(() => {
    for (const block of blocks) new X509Certificate(block);
    return blocks.length > 0;
  });
  if (isValid !== true) return malformed(`has a ${authoritiesField} that is no PEM certificate`);
  // OpenSSL would take those before the break and say nothing.
  if (!isWhole(text)) return malformed(`has a ${authoritiesField} that breaks off`);
  return { kind: "read", value: text };
}

/** Reads what is sent to an LLM provider. */
export function readApiKey(secret: Secret): Read<string> {
  const apiKey = secretValue(secret, apiKeyField);
  if (apiKey === undefined || apiKey === "") return malformed(`has no ${apiKeyField}`);
  // Goes into a header: anything but visible ASCII would break it, or smuggle another one in.
  if (!/^[\x21-\x7e]+$/.test(apiKey)) return malformed(`has an ${apiKeyField} that is no key`);
  return { kind: "read", value: apiKey };
}

function malformed(fault: string): Read<never> {
  return { kind: "malformed", fault };
}

function configMapValue({ data }: ConfigMap): string | undefined {
  return Object.hasOwn(data, authoritiesField) ? data[authoritiesField]?.trim() : undefined;
}

function tooMany(found: number): string {
  return `${found} certificates, accepted are at most ${maxCertificates}`;
}

const [begin, end] = ["-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"];

/**
 * The certificates of a PEM text, each with its boundaries. A search, and no pattern: whoever writes the text must not
 * decide how often it is read.
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

/** Whether the last PEM block that begins also ends (RFC 7468): a half-written text is not taken for the whole. */
function isWhole(pem: string): boolean {
  const lines = pem.split("\n").map((line) => line.trim());
  const last = lines.findLast((line) => /^-----[A-Z]/.test(line)) ?? "";
  return last.startsWith("-----END ") && last.endsWith("-----");
}

/** DNS names of the certificate; clients ignore its common name (RFC 9525 §2). */
function hostnamesOf({ subjectAltName = "" }: X509Certificate): readonly string[] {
  const names = subjectAltName.split(", ").flatMap((name) => /^DNS:([\w*.-]+)$/.exec(name)?.[1] ?? []);
  return [...new Set(names.map((name) => name.toLowerCase()))];
}

/** OpenSSL's exceptions are about bytes of the user's, and say nothing that would help him. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
