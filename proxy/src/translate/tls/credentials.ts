/**
 * Credentials of Secrets and ConfigMaps, with their last valid versions. If an object becomes malformed (a key that
 * does not match, a truncated file), its last valid version stays in use, so that an error does not close a listener.
 * An object that is deleted, or to which no reference is permitted, is not read here, and its last version is dropped.
 */
import { X509Certificate } from "node:crypto";
import { expiryOf } from "@gatewayproxy/runtime/certificate-expiry";
import type { ConfigMap } from "../../api/config-map.ts";
import { type ResourceKey, resourceKey } from "../../api/resource.ts";
import type { Secret } from "../../api/secret.ts";
import type { PublicJwk } from "../../ir/authentication.ts";
import type { Certificate, ClientCertificate } from "../../ir/snapshot.ts";
import { attributing } from "../each-object.ts";
import {
  type BedrockCredentials,
  type Read,
  readApiKey,
  readAuthorities,
  readBedrockCredentials,
  readCertificate,
  readKeyPair,
} from "./certificates.ts";
import { readKeySetOf } from "./key-sets.ts";

/** The credentials of an object, or its last valid ones with its error, in the form of `Read`. */
export type CredentialResult<T> = Read<T> | { readonly kind: "previous"; readonly value: T; readonly error: string };

/** Reads each kind of credentials. References to the objects must be permitted. */
export interface Credentials {
  /** The certificate of a listener, or the client certificate of a Gateway. */
  readonly certificate: (secret: Secret) => CredentialResult<Certificate>;
  /** The client certificate of a Backend. */
  readonly keyPair: (secret: Secret) => CredentialResult<ClientCertificate>;
  readonly authorities: (object: ConfigMap | Secret) => CredentialResult<string>;
  readonly apiKey: (secret: Secret) => CredentialResult<string>;
  readonly bedrock: (secret: Secret) => CredentialResult<BedrockCredentials>;
  /** The public keys of an issuer of tokens. */
  readonly keySet: (configMap: ConfigMap) => CredentialResult<{ readonly keys: readonly PublicJwk[] }>;
}

/** The valid credentials of a translation, for the next one. */
export interface ValidCredentials {
  readonly certificate: ValidVersions<Secret, Certificate>;
  readonly keyPair: ValidVersions<Secret, ClientCertificate>;
  readonly authorities: ValidVersions<ConfigMap | Secret, string>;
  readonly apiKey: ValidVersions<Secret, string>;
  readonly bedrock: ValidVersions<Secret, BedrockCredentials>;
  readonly keySet: ValidVersions<ConfigMap, { readonly keys: readonly PublicJwk[] }>;
}

/** By object, its last valid version with its credentials. */
type ValidVersions<Version, T> = ReadonlyMap<ResourceKey, ValidVersion<Version, T>>;

interface ValidVersion<Version, T> {
  readonly version: Version;
  readonly value: T;
  /** The name of a value that only its status remembers, for messages; absent: the value is known and has a name. */
  readonly name?: string;
}

/** The beginning of the name of previous content in messages. */
export const previousPhrase = "its previous ";
/** Follows the name of previous content in messages. */
export const previousContentPhrase = " stays in force where it is known";

/** The value at the start. */
export const noCredentials: ValidCredentials = {
  certificate: new Map(),
  keyPair: new Map(),
  authorities: new Map(),
  apiKey: new Map(),
  bedrock: new Map(),
  keySet: new Map(),
};

/**
 * Opens the credentials of a translation, given those of the previous one.
 *
 * @returns with `valid`, the valid credentials that have been read so far.
 */
export function openCredentials(before: ValidCredentials): Credentials & { readonly valid: ValidCredentials } {
  const certificate = withPrevious(readCertificate, before.certificate, certificateName);
  const keyPair = withPrevious(readKeyPair, before.keyPair, certificateName);
  const authorities = withPrevious(readAuthorities, before.authorities, genericName);
  const apiKey = withPrevious(readApiKey, before.apiKey, genericName);
  const bedrock = withPrevious(readBedrockCredentials, before.bedrock, genericName);
  const keySet = withPrevious(readKeySetOf, before.keySet, genericName);
  return {
    certificate: certificate.read,
    keyPair: keyPair.read,
    authorities: authorities.read,
    apiKey: apiKey.read,
    bedrock: bedrock.read,
    keySet: keySet.read,
    valid: {
      certificate: certificate.valid,
      keyPair: keyPair.valid,
      authorities: authorities.valid,
      apiKey: apiKey.valid,
      bedrock: bedrock.valid,
      keySet: keySet.valid,
    },
  };
}

/**
 * Returns the message of Gateway API's `NoValidCACertificate`.
 *
 * @param peers the peers whose certificates are validated.
 * @param hasPrevious whether the previous content of the objects validates them.
 */
export function noValidAuthority(peers: string, hasPrevious: boolean): string {
  return hasPrevious
    ? `no authority is valid now; ${peers} are validated by the previous ones where they are known`
    : `no valid authority validates ${peers}`;
}

/** @param nameOf returns a name of the credentials that stay in use, for messages. */
function withPrevious<Version extends ConfigMap | Secret, T>(
  readNew: (object: Version) => Read<T>,
  before: ValidVersions<Version, T>,
  nameOf: (previous: T) => string,
): { readonly read: (object: Version) => CredentialResult<T>; readonly valid: ValidVersions<Version, T> } {
  const valid = new Map<ResourceKey, ValidVersion<Version, T>>();
  const read = (object: Version): CredentialResult<T> => {
    const key = resourceKey(object);
    const last = valid.get(key) ?? before.get(key);
    // An unchanged object is identical, and OpenSSL takes half a millisecond to read a certificate.
    if (last?.version === object) {
      valid.set(key, last);
      return { kind: "read", value: last.value };
    }
    const now = attributing(object, () => readNew(object));
    if (now.kind === "read") {
      valid.set(key, { version: object, value: now.value });
      return now;
    }
    // The last version of another object with the same name must not be used.
    if (last === undefined || last.version.metadata.uid !== object.metadata.uid) return now;
    valid.set(key, last);
    const error = `${now.error}; ${last.name ?? nameOf(last.value)}${previousContentPhrase}`;
    return { kind: "previous", value: last.value, error };
  };
  return { read, valid };
}

function certificateName({ chain }: ClientCertificate): string {
  const expiry = expiryOf(new X509Certificate(chain));
  const until = expiry === undefined ? "" : `, valid until ${expiry.toISOString().replace(".000Z", "Z")},`;
  return `${previousPhrase}certificate${until}`;
}

function genericName(): string {
  return `${previousPhrase}content`;
}
