/** The input that all steps of a translation share. */
import type { Gateway } from "../api/gateway.ts";
import type { ResourceKey, ResourceSet } from "../api/resource.ts";
import { defaultPathRules, type PathRules } from "../routing/path-rules.ts";
import { type Environment, hostEnvironment } from "./environment.ts";
import { nameKey } from "./index/object-names.ts";
import { indexResources, type ResourceIndex } from "./index/resource-index.ts";
import { NameHints } from "./reference/name-hints.ts";
import { type Credentials, noCredentials, openCredentials, type ValidCredentials } from "./tls/credentials.ts";

/** Returns why the proxy does not connect to a host and port, to follow both in a sentence; undefined if it may. */
export type AddressDenial = (host: string, port: number) => string | undefined;

/**
 * How the targets of an invalid policy are served: they respond with 503, or they are served with the valid part of the
 * policy.
 */
export type RefusedPolicies = "Closed" | "Open";

/** The settings of a translation. */
export interface TranslateOptions {
  /** Leaves binds, backends, problems and conflicts empty, for callers that serve nothing. Default: false. */
  readonly onlyStatuses?: boolean;
  /** Default: Closed. */
  readonly refusedPolicies?: RefusedPolicies;
  /** Whether counters of long windows outlive the proxies of a Gateway (`--state-dir`). Default: of none. */
  readonly keepsCounters?: (gateway: Gateway) => boolean;
  /** Replicas of the proxy, including this one. They divide limits with `shareAcrossReplicas`. Default: 1. */
  readonly readyReplicas?: number;
  /** Default: all Gateways in this process. */
  readonly environment?: Environment;
  /** Secrets and ConfigMaps that resources refer to and that must not be read. Any other missing one does not exist. */
  readonly unreadable?: ReadonlySet<ResourceKey>;
  /** Namespaces whose resources refer to more Secrets and ConfigMaps than are read. Default: none. */
  readonly crowded?: ReadonlySet<string>;
  /** Default: every address is permitted. */
  readonly addressDenial?: AddressDenial;
  /** How paths of requests are normalized, which decides whether two paths are equal. Default: `defaultPathRules`. */
  readonly pathRules?: PathRules;
  /** The last valid credentials, which stay in use if the current ones are malformed. Default: none. */
  readonly before?: ValidCredentials;
}

/** The resources with their lookups, and the settings with their defaults. The first parameter of every step. */
export interface TranslationContext
  extends Readonly<Required<Omit<TranslateOptions, "onlyStatuses" | "keepsCounters" | "before">>> {
  readonly index: ResourceIndex;
  /** Reads credentials, and holds those that have been read so far. */
  readonly credentials: Credentials & { readonly valid: ValidCredentials };
  readonly hints: NameHints;
  /**
   * Names the process that serves a Gateway. The status of a Gateway with its own pods must not depend on other
   * Gateways, which its proxies do not know.
   */
  readonly placeOf: (gateway: Gateway) => string;
  /** The processes, as `placeOf` names them, whose counters of long windows start from zero with them. */
  readonly forgetfulPlaces: ReadonlySet<string>;
}

// The same functions for all translations, since resolved values depend on them.
const samePlace = (): string => "";
const permitsAll: AddressDenial = () => undefined;

/** Opens the context of one translation. */
export function openContext(resources: ResourceSet, options: TranslateOptions): TranslationContext {
  const { environment = hostEnvironment, before = noCredentials, keepsCounters = () => false } = options;
  const placeOf = environment.isolatesGateways ? nameKey : samePlace;
  return {
    index: indexResources(resources),
    environment,
    credentials: openCredentials(before),
    hints: new NameHints(),
    placeOf,
    forgetfulPlaces: new Set(resources.Gateway.filter((gateway) => !keepsCounters(gateway)).map(placeOf)),
    refusedPolicies: options.refusedPolicies ?? "Closed",
    readyReplicas: options.readyReplicas ?? 1,
    unreadable: options.unreadable ?? new Set(),
    crowded: options.crowded ?? new Set(),
    addressDenial: options.addressDenial ?? permitsAll,
    pathRules: options.pathRules ?? defaultPathRules,
  };
}
