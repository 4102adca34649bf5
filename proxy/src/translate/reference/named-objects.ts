/** Secrets and ConfigMaps by name. For a missing one, whether it does not exist or must not be read. */
import type { NameHints } from "./name-hints.ts";
import { renderKey, type ResourceKey, type ResourceSet } from "../../api/resource.ts";
import type { Credentials } from "../tls/credentials.ts";
import { indexByName, type Named } from "../index/object-names.ts";

/** Returns why the proxy does not connect to a host and port, to follow both in a sentence; undefined if it may. */
export type AddressDenial = (host: string, port: number) => string | undefined;

/**
 * The input of translation: resources, the objects that must not be read, how credentials are read, and which addresses
 * backends may have.
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
  /** Returns why `name` is missing, to follow it in a sentence: `does not exist`. */
  absence(name: string): string;
}

const notPermitted = "must not be read: the verbs list and watch are not permitted";

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
