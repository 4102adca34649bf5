/** Secrets and ConfigMaps by their names; of one that is not there, whether it does not exist or may not be read. */
import type { NameHints } from "./name-hints.ts";
import { renderKey, type ResourceKey, type ResourceSet } from "../api/resource.ts";
import type { Credentials } from "./credentials.ts";
import { indexByName, type Named } from "./object-names.ts";

/** Why backends must not be at a host and port, to follow both in a sentence; undefined where they may. */
export type AddressDenial = (host: string, port: number) => string | undefined;

/**
 * What translation begins with: resources, those that are named and may not be read, how credentials are read, and which
 * addresses backends may have.
 */
export interface ReadableResources extends ResourceSet {
  readonly unreadable: ReadonlySet<ResourceKey>;
  readonly credentials: Credentials;
  readonly addressDenial: AddressDenial;
  readonly hints: NameHints;
}

export interface NamedObjects<T> {
  /** @param name `namespace/name` */
  get(name: string): T | undefined;
  /** Why `name` is not there, to follow it in a sentence: `does not exist`. */
  absence(name: string): string;
}

const notPermitted = "may not be read: that takes the verbs list and watch";

export function namedSecrets({ Secret, unreadable }: ReadableResources): NamedObjects<ResourceSet["Secret"][number]> {
  return byName("Secret", Secret, unreadable);
}

export function namedConfigMaps(resources: ReadableResources): NamedObjects<ResourceSet["ConfigMap"][number]> {
  return byName("ConfigMap", resources.ConfigMap, resources.unreadable);
}

function byName<T extends Named>(
  kind: "Secret" | "ConfigMap",
  objects: readonly T[],
  unreadable: ReadonlySet<ResourceKey>,
): NamedObjects<T> {
  const index = indexByName(objects);
  return {
    get: (name) => index.get(name),
    absence(name) {
      const [namespace = "", own = ""] = name.split("/");
      return unreadable.has(renderKey(kind, namespace, own)) ? notPermitted : "does not exist";
    },
  };
}
