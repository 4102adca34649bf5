/** The input of a configuration dump. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { Problem } from "@gatewayproxy/runtime/problem";
import type { ResourceSet } from "../../api/resource.ts";
import type { Statuses } from "../../api/status.ts";
import type { BackendKey, Snapshot } from "../../ir/snapshot.ts";
import type { KeySetState } from "../../ir/key-set-state.ts";
import type { EndpointState, ProviderFigures } from "../../ir/endpoint-state.ts";

/** The state of all threads at one time. */
export interface DumpInput {
  /** The version, the start and the settings of the process. */
  readonly process: ProcessFacts;
  /** The result of the last set of resources. */
  readonly configuration: ConfigurationState;
  /** The generation that each worker serves. */
  readonly workers: readonly { readonly worker: number; readonly generation: number }[];
  /** Unexpected ends of workers; `lastMs` is milliseconds since the epoch. */
  readonly workerDeaths: readonly {
    readonly worker: number;
    readonly count: number;
    readonly lastMs: number;
    readonly lastCause: string;
  }[];
  /** The endpoints of every worker; an endpoint occurs once per worker. */
  readonly endpoints: readonly EndpointState[];
  /** The key sets of every worker; a URL occurs once per worker. */
  readonly keySets: readonly KeySetState[];
  /** The providers of Backends with several, by the keys of their Backends. */
  readonly providers: ReadonlyMap<BackendKey, ProviderFigures>;
}

/** Facts that do not change while the process runs. */
export interface ProcessFacts {
  readonly version: string;
  /** Milliseconds since the epoch. */
  readonly startedMs: number;
  readonly mode: "file" | "kubernetes";
  /** The folder, or the Kubernetes API. */
  readonly source: string;
  /** By flag. */
  readonly settings: Readonly<Record<string, string | number | boolean>>;
}

/** The result of applying the last set of resources. */
export interface ConfigurationState {
  readonly snapshot: Snapshot;
  readonly resources: ResourceSet;
  readonly statuses: Statuses;
  readonly problems: readonly Problem[];
  readonly conflicts: ConflictsFound;
  /** Binds that could not be opened. */
  readonly failures: readonly {
    readonly address: string | undefined;
    readonly port: number;
    readonly transport?: "UDP";
    readonly message: string;
  }[];
  /** Milliseconds since the epoch; undefined before the first generation. */
  readonly servingSinceMs: number | undefined;
  readonly lastRejected: RejectedConfiguration | undefined;
}

/** Rules that lose requests to other rules; see `translate/route/route-conflicts.ts`. */
export interface ConflictsFound {
  readonly found: readonly {
    readonly route: string;
    readonly rule: string;
    readonly isReachable: boolean;
    readonly winners: ConfigDump["conflicts"]["rules"][number]["winners"];
    readonly winnersLeftOut: number;
    readonly message: string;
  }[];
  readonly leftOut: number;
  readonly unexaminedHostnames: number;
}

/** A set of resources with problems. */
export interface RejectedConfiguration {
  readonly atMs: number;
  /** The generation in use after it. */
  readonly generation: number;
  readonly problems: readonly Problem[];
  /** Resources whose previous valid version stayed in use. */
  readonly kept: readonly string[];
}
