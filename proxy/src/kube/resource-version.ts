/** The versions of objects and lists of the API server (`metadata.resourceVersion`). */
import { fieldsOf, type KubeObject } from "./object.ts";

/** Returns the version of an object or a list; undefined if it has none. */
export function versionOf({ metadata }: KubeObject): string | undefined {
  const version = fieldsOf(metadata)["resourceVersion"];
  return typeof version === "string" ? version : undefined;
}

/**
 * Whether a resource version is older than another one of the same collection. API servers of Kubernetes number them in
 * the order of the changes; of others nothing is known.
 */
export function isOlder(version: string, known: string): boolean {
  if (!wholeNumber.test(version) || !wholeNumber.test(known)) return false;
  return BigInt(version) < BigInt(known);
}

const wholeNumber = /^\d{1,20}$/;
