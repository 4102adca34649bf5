/**
 * Certificates as resources hold them: Secrets of type `kubernetes.io/tls` and ConfigMaps with authorities. What is
 * taken here is what OpenSSL takes when it is served, so that a bad one is told in a condition and harms nobody else.
 * Whether one has expired is not asked: that depends on the time, and a client sees it anyway.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { ConfigMap } from "../api/config-map.ts";
import { type Secret, secretValue } from "../api/secret.ts";
import type { Certificate } from "../ir/snapshot.ts";
import { nameKey } from "./object-names.ts";

/** A value, or what is wrong with its source. */
export type Read<T> =
  | { readonly kind: "read"; readonly value: T }
  | { readonly kind: "unreadable"; readonly message: string };

const secretType = "kubernetes.io/tls";
const chainField = "tls.crt";
const keyField = "tls.key";
/** The key of a ConfigMap that holds certificates of authorities. */
const authoritiesField = "ca.crt";

/** Reads a server's certificate and its key; they belong together when this succeeds. */
export function readCertificate(secret: Secret): Read<Certificate> {
  const source = nameKey(secret);
  const unreadable = (fault: string) => unreadableAs(`Secret ${source} ${fault}`);
  if (secret.type !== secretType) return unreadable(`is of type ${secret.type ?? "Opaque"}, accepted is ${secretType}`);
  const chain = secretValue(secret, chainField);
  const key = secretValue(secret, keyField);
  if (chain === undefined) return unreadable(`has no ${chainField}`);
  if (key === undefined) return unreadable(`has no ${keyField}`);
  const certificate = attempt(() => new X509Certificate(chain));
  if (certificate === undefined) return unreadable(`has a ${chainField} that is no PEM certificate`);
  const privateKey = attempt((): KeyObject => createPrivateKey(key));
  if (privateKey === undefined) return unreadable(`has a ${keyField} that is no PEM private key`);
  if (!certificate.checkPrivateKey(privateKey)) {
    return unreadable(`has a ${keyField} that does not belong to the first certificate of its ${chainField}`);
  }
  // The rest of the chain, and keys too short for today.
  if (attempt(() => createSecureContext({ cert: chain, key })) === undefined) {
    return unreadable(`has a ${chainField} or ${keyField} that OpenSSL refuses`);
  }
  return {
    kind: "read",
    value: { source, chain, privateKey: { secret: key }, hostnames: hostnamesOf(certificate) },
  };
}

/** Reads the PEM text of one or more authorities. */
export function readAuthorities(configMap: ConfigMap): Read<string> {
  const source = `ConfigMap ${nameKey(configMap)}`;
  const text = Object.hasOwn(configMap.data, authoritiesField) ? configMap.data[authoritiesField]?.trim() : undefined;
  if (text === undefined) return unreadableAs(`${source} has no ${authoritiesField}`);
  const isValid = attempt(() => {
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g) ?? [];
    for (const block of blocks) new X509Certificate(block);
    return blocks.length > 0;
  });
  if (isValid !== true) return unreadableAs(`${source} has a ${authoritiesField} that is no PEM certificate`);
  return { kind: "read", value: text };
}

function unreadableAs(message: string): Read<never> {
  return { kind: "unreadable", message };
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
