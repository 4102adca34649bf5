/**
 * Credentials out of Secrets and ConfigMaps, and what they were when they were last sound. One that is malformed now (a
 * key that does not match, half a file) leaves in force what the same object held before: nobody loses a listener over
 * a slip. An object that is deleted, or may not be referred to any more, is not asked here, and so forgotten.
 */
import { X509Certificate } from "node:crypto";
import type { ConfigMap } from "../api/config-map.ts";
import { type ResourceKey, resourceKey } from "../api/resource.ts";
import type { Secret } from "../api/secret.ts";
import type { Certificate, ClientCertificate } from "../ir/snapshot.ts";
import { blaming } from "./each-object.ts";
import { type Read, readApiKey, readAuthorities, readCertificate, readKeyPair } from "./certificates.ts";

/** What an object holds, or held; in the latter case with what is wrong with it, as `Read` has it. */
export type Held<T> = Read<T> | { readonly kind: "former"; readonly value: T; readonly fault: string };

/** Reads each kind of credentials out of objects that may be referred to. */
export interface Credentials {
  /** Of a listener, or of a Gateway towards backends. */
  readonly certificate: (secret: Secret) => Held<Certificate>;
  /** Of a Backend's client. */
  readonly keyPair: (secret: Secret) => Held<ClientCertificate>;
  readonly authorities: (object: ConfigMap | Secret) => Held<string>;
  readonly apiKey: (secret: Secret) => Held<string>;
}

/** What was sound of all that a translation has read: for the next one. */
export interface SoundCredentials {
  readonly certificate: Sound<Secret, Certificate>;
  readonly keyPair: Sound<Secret, ClientCertificate>;
  readonly authorities: Sound<ConfigMap | Secret, string>;
  readonly apiKey: Sound<Secret, string>;
}

/** By object, the last version that was sound and what it held. */
type Sound<Version, T> = ReadonlyMap<ResourceKey, { readonly version: Version; readonly value: T }>;

/** At start nothing is known. */
export const noCredentials: SoundCredentials = {
  certificate: new Map(),
  keyPair: new Map(),
  authorities: new Map(),
  apiKey: new Map(),
};

/**
 * Reads credentials, given what was sound the last time.
 *
 * @returns `sound`, which has what has been read so far.
 */
export function openCredentials(before: SoundCredentials): Credentials & { readonly sound: SoundCredentials } {
  const certificate = keeping(readCertificate, before.certificate, certificateName);
  const keyPair = keeping(readKeyPair, before.keyPair, certificateName);
  const authorities = keeping(readAuthorities, before.authorities, anything);
  const apiKey = keeping(readApiKey, before.apiKey, anything);
  return {
    certificate: certificate.read,
    keyPair: keyPair.read,
    authorities: authorities.read,
    apiKey: apiKey.read,
    sound: {
      certificate: certificate.sound,
      keyPair: keyPair.sound,
      authorities: authorities.sound,
      apiKey: apiKey.sound,
    },
  };
}

/**
 * Why nothing that is referred to as an authority is valid (Gateway API `NoValidCACertificate`).
 *
 * @param whom whose certificates are to be validated.
 * @param hasPrevious whether they are, by what the objects held before.
 */
export function noValidAuthority(whom: string, hasPrevious: boolean): string {
  return hasPrevious
    ? `no certificate of an authority is sound now; ${whom} are validated by those before where they are known`
    : `no certificate of an authority can be used to validate ${whom}`;
}

/** @param nameOf names what stays in force. */
function keeping<Version extends ConfigMap | Secret, T>(
  readNew: (object: Version) => Read<T>,
  before: Sound<Version, T>,
  nameOf: (former: T) => string,
): { readonly read: (object: Version) => Held<T>; readonly sound: Sound<Version, T> } {
  const sound = new Map<ResourceKey, { readonly version: Version; readonly value: T }>();
  const read = (object: Version): Held<T> => {
    const key = resourceKey(object);
    const last = sound.get(key) ?? before.get(key);
    // What did not change is the same object, and to read a certificate takes OpenSSL half a millisecond.
    if (last?.version === object) {
      sound.set(key, last);
      return { kind: "read", value: last.value };
    }
    const now = blaming(object, () => readNew(object));
    if (now.kind === "read") {
      sound.set(key, { version: object, value: now.value });
      return now;
    }
    // Another object of the same name has nothing to do with this one.
    if (last === undefined || last.version.metadata.uid !== object.metadata.uid) return now;
    sound.set(key, last);
    const fault = `${now.fault}; ${nameOf(last.value)} stays in force where it is known`;
    return { kind: "former", value: last.value, fault };
  };
  return { read, sound };
}

function certificateName({ chain }: ClientCertificate): string {
  const { validToDate } = new X509Certificate(chain);
  // OpenSSL serves a certificate whose times are none.
  const isTime = !Number.isNaN(validToDate.getTime());
  const until = isTime ? `, valid until ${validToDate.toISOString().replace(".000Z", "Z")},` : "";
  return `the certificate that it held before${until}`;
}

function anything(): string {
  return "what it held before";
}
