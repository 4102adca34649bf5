/**
 * Credentials as resources hold them: certificates with their keys, certificates of authorities, API keys of LLM
 * providers. What is taken here is what OpenSSL takes when it is served, so that a bad one is told in a condition and
 * harms nobody else. Whether one has expired is not asked: that depends on the time, and a client sees it anyway.
 */
import { createHash, createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { ConfigMap } from "../api/config-map.ts";
import { type Secret, secretValue } from "../api/secret.ts";
import type { Certificate, ClientCertificate } from "../ir/snapshot.ts";
import { nameConstraintsIn } from "./name-constraints.ts";
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

/** Certificates that are trusted in one place, of all objects together: bundles of all public authorities have some 150. */
const maxAuthorities = 300;
/** Length of their PEM texts together; that of such a bundle is 220 KiB. */
const maxAuthoritiesLength = 512 * 1024;
/** Certificates that are sent in a handshake: chains have two to four. */
const maxChain = 10;
/** Of one certificate in DER: those with a hundred names have some 4 KiB. */
const maxCertificateBytes = 16 * 1024;
/** Subtrees of name constraints, and names of an authority: a handshake compares each of the ones with each name. */
const maxConstraints = 100;

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
  const blocks = certificatesOf(chain);
  if (blocks.length > maxChain) return malformed(`has a ${chainField} of ${tooMany(blocks.length, maxChain)}`);
  const costly = blocks.slice(0, 1).flatMap((block) => sizeFault(certificateIn(block)) ?? []);
  const costlyRest = blocks.slice(1).flatMap((block) => authorityFault(certificateIn(block)) ?? []);
  const [fault] = [...costly, ...costlyRest];
  if (fault !== undefined) return malformed(`has a ${chainField} with a certificate ${fault}`);
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
  if (blocks.length > maxAuthorities) {
    return malformed(`has a ${authoritiesField} of ${tooMany(blocks.length, maxAuthorities)}`);
  }
  if (text.length > maxAuthoritiesLength) {
    return malformed(
      `has a ${authoritiesField} of ${text.length} characters, accepted are at most ${maxAuthoritiesLength}`,
    );
  }
  if (blocks.length === 0) return malformed(`has a ${authoritiesField} that is no PEM certificate`);
  for (const block of blocks) {
    const certificate = certificateIn(block);
    if (certificate === undefined) return malformed(`has a ${authoritiesField} that is no PEM certificate`);
    const fault = authorityFault(certificate);
    if (fault !== undefined) return malformed(`has a ${authoritiesField} with a certificate ${fault}`);
  }
  // OpenSSL would take those before the break and say nothing.
  if (!isWhole(text)) return malformed(`has a ${authoritiesField} that breaks off`);
  return { kind: "read", value: text };
}

/** Bounds the authorities of several objects that are trusted in one place. */
export class AuthorityBudget {
  #certificates = 0;
  #length = 0;

  /** Why these are too many beside those before, to follow the name of their object; undefined where they are counted. */
  rejection(pem: string): string | undefined {
    const certificates = this.#certificates + certificatesOf(pem).length;
    const length = this.#length + pem.length;
    if (certificates > maxAuthorities || length > maxAuthoritiesLength) {
      return `is not used: with those before it makes ${certificates} certificates of ${length} characters, accepted are at most ${maxAuthorities} of ${maxAuthoritiesLength}`;
    }
    this.#certificates = certificates;
    this.#length = length;
    return undefined;
  }
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

function tooMany(found: number, accepted: number): string {
  return `${found} certificates, accepted are at most ${accepted}`;
}

/** Certificates as they were read, by the hash of their text: many objects hold the same, and are read often. */
const known = new Map<string, { readonly size: string | undefined; readonly authority: string | undefined }>();
const maxKnown = 4_096;

/** What is wrong with a certificate, as one of ours and as that of an authority; undefined for no certificate. */
function certificateIn(block: string): ReturnType<typeof known.get> {
  const key = createHash("sha256").update(block).digest("base64");
  const before = known.get(key);
  if (before !== undefined) return before;
  const certificate = attempt(() => new X509Certificate(block));
  if (certificate === undefined) return undefined;
  const size = sizeFaultOf(certificate);
  const faults = { size, authority: size ?? constraintsFaultOf(certificate) };
  if (known.size >= maxKnown) known.clear();
  known.set(key, faults);
  return faults;
}

const sizeFault = (certificate: ReturnType<typeof certificateIn>) => certificate?.size;
const authorityFault = (certificate: ReturnType<typeof certificateIn>) => certificate?.authority;

function sizeFaultOf({ raw }: X509Certificate): string | undefined {
  if (raw.length > maxCertificateBytes) {
    return `of ${raw.length} bytes, accepted are at most ${maxCertificateBytes}`;
  }
  return undefined;
}

function constraintsFaultOf({ raw, subjectAltName = "" }: X509Certificate): string | undefined {
  const names = subjectAltName === "" ? 0 : subjectAltName.split(", ").length;
  const constraints = nameConstraintsIn(raw);
  if (names <= maxConstraints && constraints <= maxConstraints) return undefined;
  const found = constraints === Infinity ? "name constraints that cannot be read" : `${constraints} name constraints`;
  return `with ${names} names and ${found}, accepted are at most ${maxConstraints} of each`;
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
