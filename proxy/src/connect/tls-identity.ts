/** A short text that is equal for equal TLS settings of backends. */
import { hash } from "node:crypto";
import type { UpstreamTls } from "../ir/snapshot.ts";

/**
 * The digests of objects. Backends of a snapshot share authorities and certificates, which stay the same objects in the
 * next snapshot, so that texts of up to 512 KiB are hashed once.
 */
const digests = new WeakMap<object, string>();

/** Returns the same text for settings with equal content, and different texts for others. */
export function tlsIdentity(tls: UpstreamTls | undefined): string {
  if (tls === undefined) return "";
  const { authorities, clientCertificate, ...rest } = tls;
  return JSON.stringify([
    rest,
    authorities === undefined ? null : digestOf(authorities),
    clientCertificate === undefined ? null : digestOf(clientCertificate),
  ]);
}

function digestOf(value: object): string {
  const digest = digests.get(value) ?? hash("sha256", JSON.stringify(value), "base64");
  digests.set(value, digest);
  return digest;
}
