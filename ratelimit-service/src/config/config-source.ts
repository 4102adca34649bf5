/**
 * Sources of configuration. A source watches its location and emits every new state, complete and checked. It keeps the
 * last valid version of what is invalid, so the service only ever replaces its whole configuration.
 */
import type { ConfigProblem } from "./config-problem.ts";
import type { RateLimitConfig } from "./rule.ts";

/** The state of one file (or xDS resource) of a source. */
export interface ConfigPart {
  /** The key as in problems: `config.limits.yaml`, or the name of the xDS resource. */
  readonly key: string;
  /** Domain of the version in use; absent while there is none. */
  readonly domain?: string;
  /**
   * `current`: the newest version is served. `last-good`: the newest version is invalid, and an earlier one is served.
   * `rejected`: no version is served.
   */
  readonly state: "current" | "last-good" | "rejected";
}

/** Resources of an xDS server as received: each is the bytes of a google.protobuf.Any. */
export interface XdsResources {
  readonly resources: readonly Uint8Array[];
  /** Whether several resources may describe one domain. */
  readonly mergesDomains: boolean;
  /** Maximum for all resources together. */
  readonly maxDescriptors: number;
}

/** A state of the configuration. */
export interface ConfigUpdate {
  /** The configuration to serve from now on; absent while nothing could be read, and calls fail. */
  readonly config?: RateLimitConfig;
  /** The bytes of xDS that `config` was parsed from. Other threads get these and parse them in slices. */
  readonly xds?: XdsResources;
  /** The part of `config` that comes from files, when `xds` has the rest. */
  readonly files?: RateLimitConfig;
  readonly parts: readonly ConfigPart[];
  /** The current problems. An update with problems counts as a load error, one without as a success. */
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

/** A location of configuration: a folder, an xDS server, or both. */
export interface ConfigSource {
  /**
   * Starts to watch. Calls `onUpdate` with the first state as soon as it is known, then with each new one; never within
   * this call and never after `close`.
   */
  start(onUpdate: (update: ConfigUpdate) => void): void;
  close(): void;
}
