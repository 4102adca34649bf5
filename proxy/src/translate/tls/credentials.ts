/**
 * Credentials of Secrets and ConfigMaps, with their last valid versions. If an object becomes malformed (a key that does
 * not match, a truncated file), its last valid version stays in use, so that an error does not close a listener. An object
 * that is deleted, or to which no reference is permitted, is not read here, and its last version is dropped.
 */
import { X509Certificate } from "node:crypto";
import type { ConfigMap } from "../../api/config-map.ts";
import { type ResourceKey, resourceKey } from "../../api/resource.ts";
import type { Secret } from "../../api/secret.ts";
import type { Certificate, ClientCertificate } from "../../ir/snapshot.ts";
import { blaming } from "../each-object.ts";
import { type Read, readApiKey, readAuthorities, readCertificate, readKeyPair } from "./certificates.ts";

/** The credentials of an object, or its last valid ones with its error, in the form of `Read`. */
export type Held<T> = Read<T> | { readonly kind: "previous"; readonly value: T; readonly fault: string };

/** Reads each kind of credentials. References to the objects must be permitted. */
export interface Credentials {
  /** The certificate of a listener, or the client certificate of a Gateway. */
  readonly certificate: (secret: Secret) => Held<Certificate>;
  /** The client certificate of a Backend. */
  readonly keyPair: (secret: Secret) => Held<ClientCertificate>;
  readonly authorities: (object: ConfigMap | Secret) => Held<string>;
  readonly apiKey: (secret: Secret) => Held<string>;
}

/** The valid credentials of a translation, for the next one. */
export interface SoundCredentials {
  readonly certificate: Sound<Secret, Certificate>;
  readonly keyPair: Sound<Secret, ClientCertificate>;
  readonly authorities: Sound<ConfigMap | Secret, string>;
  readonly apiKey: Sound<Secret, string>;
}

/** By object, its last valid version with its credentials. */
type Sound<Version, T> = ReadonlyMap<ResourceKey, { readonly version: Version; readonly value: T }>;

/** The value at the start. */
export const noCredentials: SoundCredentials = {
  certificate: new Map(),
  keyPair: new Map(),
  authorities: new Map(),
  apiKey: new Map(),
};

/**
 * Opens the credentials of a translation, given those of the previous one.
 *
 * @returns with `sound`, the credentials that have been read so far.
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
 * Returns the message of Gateway API's `NoValidCACertificate`.
 *
 * @param whom the peers whose certificates are validated.
 * @param hasPrevious whether the previous content of the objects validates them.
 */
export function noValidAuthority(whom: string, hasPrevious: boolean): string {
  return hasPrevious
    ? `no authority is valid now; ${whom} are validated by the previous ones where they are known`
    : `no valid authority validates ${whom}`;
}

/** @param nameOf returns a name of the credentials that stay in use, for messages. */
function keeping<Version extends ConfigMap | Secret, T>(
  readNew: (object: Version) => Read<T>,
  before: Sound<Version, T>,
  nameOf: (previous: T) => string,
): { readonly read: (object: Version) => Held<T>; readonly sound: Sound<Version, T> } {
  const sound = new Map<ResourceKey, { readonly version: Version; readonly value: T }>();
  const read = (object: Version): Held<T> => {
    const key = resourceKey(object);
    const last = sound.get(key) ?? before.get(key);
    // An unchanged object is identical, and OpenSSL takes half a millisecond to read a certificate.
    if (last?.version === object) {
      sound.set(key, last);
      return { kind: "read", value: last.value };
    }
    const now = blaming(object, () => readNew(object));
    if (now.kind === "read") {
      sound.set(key, { version: object, value: now.value });
      return now;
    }
    // The last version of another object with the same name must not be used.
    if (last === undefined || last.version.metadata.uid !== object.metadata.uid) return now;
    sound.set(key, last);
    const fault = `${now.fault}; ${nameOf(last.value)} stays in force where it is known`;
    return { kind: "previous", value: last.value, fault };
  };
  return { read, sound };
}

function certificateName({ chain }: ClientCertificate): string {
  const { validToDate } = new X509Certificate(chain);
  // OpenSSL accepts certificates with invalid times.
  const isTime = !Number.isNaN(validToDate.getTime());
  const until = isTime ? `, valid until ${validToDate.toISOString().replace(".000Z", "Z")},` : "";
  return `its previous certificate${until}`;
}

function anything(): string {
  return "its previous content";
}
