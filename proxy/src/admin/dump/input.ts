/** Everything that a dump of the configuration is made of, as its owners have it. */
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import type { Problem } from "@gatewayproxy/runtime/problem";
import type { ResourceSet } from "../../api/resource.ts";
import type { Statuses } from "../../api/status.ts";
import type { Snapshot } from "../../ir/snapshot.ts";
import type { EndpointState } from "../../upstream/endpoint-state.ts";

export interface DumpInput {
  readonly process: ProcessFacts;
  readonly configuration: ConfigurationState;
  /** The generation that each worker serves. */
  readonly workers: readonly { readonly worker: number; readonly generation: number }[];
  /** How workers ended unasked; `lastMs` is wall time. */
  readonly workerDeaths: readonly {
    readonly worker: number;
    readonly count: number;
    readonly lastMs: number;
    readonly lastCause: string;
  }[];
  /** Of every worker; an endpoint comes once per worker. */
  readonly endpoints: readonly EndpointState[];
}

/** What does not change while the process runs. */
export interface ProcessFacts {
  readonly version: string;
  /** Wall time, ms. */
  readonly startedMs: number;
  readonly mode: "file" | "kubernetes";
  /** The folder, or the cluster. */
  readonly source: string;
  /** By flag. */
  readonly settings: Readonly<Record<string, string | number | boolean>>;
}

/** What was last made of the resources. */
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
    readonly message: string;
  }[];
  /** Wall time, ms; undefined before the first generation. */
  readonly servingSinceMs: number | undefined;
  readonly lastRejected: RejectedConfiguration | undefined;
}

/** Rules that others go before; see `translate/route-conflicts.ts`. */
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

/** A set of resources that was not sound as a whole. */
export interface RejectedConfiguration {
  readonly atMs: number;
  /** The generation that was in force after it. */
  readonly generation: number;
  readonly problems: readonly Problem[];
  /** Resources whose last good version stayed in force. */
  readonly kept: readonly string[];
}
