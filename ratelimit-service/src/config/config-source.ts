/**
 * Where configuration comes from. A source watches its place and hands over every new state, whole and checked; it keeps
 * what was good of the last state where the new one is not, so the service only ever replaces what it serves.
 */
import type { ConfigProblem } from "./config-problem.ts";
import type { RateLimitConfig } from "./rule.ts";

/** How one file (or xDS resource) of a source stands. */
export interface ConfigPart {
  /** As in problems: `config.limits.yaml`, or the xDS resource's name. */
  readonly key: string;
  /** Of the version in force; absent while there is none. */
  readonly domain?: string;
  /** `current`: as it is now. `last-good`: it is broken now, an earlier version is served. `refused`: nothing of it is. */
  readonly state: "current" | "last-good" | "refused";
}

/** Resources of an xDS server as they came: each is the bytes of a google.protobuf.Any. */
export interface XdsResources {
  readonly resources: readonly Uint8Array[];
  /** Several resources may describe one domain. */
  readonly mergesDomains: boolean;
  /** Of all resources together. */
  readonly maxDescriptors: number;
}

/** A state of the configuration. */
export interface ConfigUpdate {
  /** What to serve from now on; absent while nothing could be read, and calls are to fail. */
  readonly config?: RateLimitConfig;
  /** What `config` was read from, if that is quicker to hand to another thread and read again there. */
  readonly xds?: XdsResources;
  /** What `config` has of files, where it was read from them and from `xds`. */
  readonly files?: RateLimitConfig;
  readonly parts: readonly ConfigPart[];
  /** What is wrong now; a state with problems counts as a load error, one without as a success. */
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

export interface ConfigSource {
  /**
   * Begins to watch. `onUpdate` is called with the first state as soon as it is known and then with each new one, never
   * within this call and never after `close`.
   */
  start(onUpdate: (update: ConfigUpdate) => void): void;
  close(): void;
}
