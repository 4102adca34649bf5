/** What a watch of the objects of one kind needs, and what it offers (`watchObjects`). */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { ClusterConnection } from "./connection.ts";
import type { KubeObject } from "./object.ts";
import type { WatchQuota } from "./watch-quota.ts";

/** Options of `watchObjects`. */
export interface WatchOptions<T> {
  /** The API server. */
  readonly connection: ClusterConnection;
  /** The clock of the delays after failures and between polls. */
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /** Receives failures and restarts of the watch. */
  readonly log: Logger;
  /** Path of the collection; several if the kind has several versions, the preferred one first. */
  readonly paths: readonly [string, ...string[]];
  /** Restricts the objects; absent: all objects of the collection. */
  readonly selector?: { readonly labelSelector?: string; readonly fieldSelector?: string };
  /** A quota of requests and watches that several watches share; absent: unlimited. */
  readonly quota?: WatchQuota;
  /**
   * Converts an object; `before` is the converted previous version. Undefined leaves the object out. `isAgain` is true
   * for an object of `listAgain`.
   */
  readonly read: (object: KubeObject, before: T | undefined, isAgain: boolean) => T | undefined;
  /** Called before all objects are listed, or those of a namespace again. */
  readonly onList?: (namespace?: string) => void;
  /** Called when they are listed. */
  readonly onListed?: (namespace?: string) => void;
  /** Called for each object that is removed. */
  readonly onRemoved?: (value: T) => void;
  /** Called when the objects or the state may have changed. */
  readonly onChange: () => void;
  /** Called when the API server has sent all objects, or an event, also one without a change. */
  readonly onReceived?: () => void;
  /** Called when `isOutOfDate` becomes true. */
  readonly onOutOfDate?: () => void;
}

/**
 * The state of a watch. Known objects stay in force in every state but `absent`.
 * - `starting`: nothing was listed yet.
 * - `synced`: every object was listed. Later failures do not change this state, except several responses that the kind
 *   is missing. A list leads from any state to this one.
 * - `absent`: the API server does not know the kind: its CustomResourceDefinition is missing.
 * - `unread`: the API server serves the kind, and none of the versions that are read, while the state was not `synced`.
 * - `forbidden`: the API server responded with 401 or 403 while the state was not `synced`.
 */
export type WatchState =
  | { readonly kind: "starting" }
  | { readonly kind: "synced" }
  | { readonly kind: "absent" }
  /** `versions` are those that are served. */
  | { readonly kind: "unread"; readonly versions: readonly string[] }
  /** `message` is that of the API server. */
  | { readonly kind: "forbidden"; readonly message: string };

/** A running watch. */
export interface ObjectWatch<T> {
  /** Objects by `namespace/name`, or by `name` for objects of the whole cluster. */
  readonly objects: ReadonlyMap<string, T>;
  /** The values of `objects`. It is the same list until one of them changes. */
  readonly values: readonly T[];
  readonly state: WatchState;
  /**
   * Whether the last request failed, so that the objects may be out of date. A kind that the API server does not know
   * is no failure.
   */
  readonly isFailing: boolean;
  /**
   * Whether the API server could not be reached, or has an older state, and has neither sent the current objects since
   * nor responded several times that it cannot. `onChange` is called when this ends.
   */
  readonly isOutOfDate: boolean;
  /**
   * Lists the objects of namespaces again, beside the watch. Those are read that were left out, and those for which
   * `isToBeRead` is true.
   */
  listAgain(namespaces: readonly string[], isToBeRead: (value: T) => boolean): void;
  /** Replaces the value of an object, until another version of it is read. Undefined leaves the object out. */
  replace(key: string, value: T | undefined): void;
  /** Stops the watch; `onChange` is not called afterwards. */
  close(): void;
}
