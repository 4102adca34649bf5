/**
 * Keeps the objects of Gateways as they should be: makes what is missing, repairs what somebody changed, deletes what is
 * not wanted any more. Only objects with our label are ever touched. What goes with its Gateway is left to Kubernetes'
 * garbage collection; what lies outside the Gateway's namespace is deleted here.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { controllerName } from "../../api/names.ts";
import { type KubeApi, resourcePath } from "../../kube/api.ts";
import { ApiFailure } from "../../kube/api-failure.ts";
import type { ClusterConnection } from "../../kube/connection.ts";
import { isObject, type KubeObject } from "../../kube/object.ts";
import { type ObjectWatch, watchObjects } from "../../kube/watch.ts";
import { gatewayNameLabel, gatewayNamespaceLabel, managedBy, managedByLabel } from "./names.ts";
import {
  contains,
  type OwnedKind,
  ownedKey,
  ownedKinds,
  type OwnedObject,
  ownedPath,
  ownedTypes,
} from "./owned-object.ts";

export interface ProvisionerOptions {
  readonly connection: ClusterConnection;
  readonly api: Pick<KubeApi, "get" | "apply" | "delete">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  /** Asked before each change: who has lost the lead leaves the rest to its successor. */
  readonly isLeader: () => boolean;
  /** Some object of ours, or what we know of it, has changed. */
  readonly onChange: () => void;
}

/** What should be there, and whose objects are to be left as they are. */
export interface Provision {
  readonly wanted: readonly OwnedObject[];
  /** Gateways that exist, as `namespace/name`; what belongs to others goes with them. */
  readonly present: ReadonlySet<string>;
  /** Those of them whose objects stay as they are, because what they should be is not known. */
  readonly frozen: ReadonlySet<string>;
}

export class Provisioner {
  readonly #options: ProvisionerOptions;
  readonly #watches: ReadonlyMap<OwnedKind, ObjectWatch<KubeObject>>;
  /** What we applied last, by key: a field that we drop is still in the object, so looking at it is not enough. */
  readonly #applied = new Map<string, string>();

  constructor(options: ProvisionerOptions) {
    this.#options = options;
    const { connection, clock, random, log, onChange } = options;
    this.#watches = new Map(
      ownedKinds.map((kind) => [
        kind,
        watchObjects({
          ...{ connection, clock, random, log, onChange },
          paths: [resourcePath(ownedTypes[kind])],
          selector: { labelSelector: `${managedByLabel}=${managedBy}` },
          read: (object) => object,
        }),
      ]),
    );
  }

  /** Whether everything that exists is known. */
  get isSynced(): boolean {
    return [...this.#watches.values()].every(({ state }) => state.kind === "synced");
  }

  /** An object of ours as the API server has it. */
  standing(kind: OwnedKind, namespace: string | undefined, name: string): KubeObject | undefined {
    return this.#watches.get(kind)?.objects.get(namespace === undefined ? name : `${namespace}/${name}`);
  }

  /** Never rejects; tells by key of each object that could not be made so. */
  async reconcile({ wanted, present, frozen }: Provision): Promise<ReadonlyMap<string, string>> {
    const faults = new Map<string, string>();
    // In order, because pods need their ServiceAccount and roles.
    for (const object of wanted) {
      const fault = await this.#attempt(object, () => this.#ensure(object));
      if (fault !== undefined) faults.set(ownedKey(object), fault);
    }
    const keys = new Set(wanted.map(ownedKey));
    for (const object of this.#all()) {
      const owner = ownerOf(object.body);
      if (keys.has(ownedKey(object)) || frozen.has(owner) || isLeaving(object.body)) continue;
      // Garbage collection sees to it, and it alone can be sure that the Gateway is gone.
      if (!present.has(owner) && hasOwner(object.body)) continue;
      await this.#attempt(object, () => this.#remove(object));
    }
    return faults;
  }

  /** Stops watching. */
  close(): void {
    for (const watch of this.#watches.values()) watch.close();
  }

  async #attempt(object: OwnedObject, act: () => Promise<string | undefined>): Promise<string | undefined> {
    if (!this.#options.isLeader()) return undefined;
    try {
      return await act();
    } catch (error) {
      const key = ownedKey(object);
      this.#applied.delete(key);
      if (isEndOfNamespace(error)) return undefined;
      this.#options.log.warn({ object: key, err: error }, "cannot provision");
      return error instanceof Error ? error.message : String(error);
    }
  }

  /** A fault, or undefined. */
  async #ensure(object: OwnedObject): Promise<string | undefined> {
    const { api, log } = this.#options;
    const key = ownedKey(object);
    const standing = this.standing(object.kind, object.namespace, object.name);
    const text = JSON.stringify(object.body);
    if (standing !== undefined && this.#applied.get(key) === text && contains(standing, object.body)) return undefined;
    const path = ownedPath(object);
    if (standing === undefined) {
      const other = await api.get(path);
      if (other !== undefined && labelOf(other, managedByLabel) !== managedBy) {
        return `${key} exists and is not ours`;
      }
    }
    await api.apply(path, object.body, { fieldManager: controllerName });
    this.#applied.set(key, text);
    log.info({ object: key }, standing === undefined ? "made" : "changed");
    return undefined;
  }

  async #remove(object: OwnedObject): Promise<undefined> {
    const { metadata } = object.body;
    const uid = isObject(metadata) && typeof metadata["uid"] === "string" ? metadata["uid"] : "";
    await this.#options.api.delete(ownedPath(object), uid);
    this.#applied.delete(ownedKey(object));
    this.#options.log.info({ object: ownedKey(object) }, "deleted");
  }

  #all(): readonly OwnedObject[] {
    return [...this.#watches].flatMap(([kind, { objects }]) =>
      [...objects].map(([key, body]) => {
        const slash = key.indexOf("/");
        const namespace = slash === -1 ? undefined : key.slice(0, slash);
        return { kind, namespace, name: key.slice(slash + 1), body };
      }),
    );
  }
}

/** A Gateway in a namespace that is being deleted needs nothing any more. */
function isEndOfNamespace(error: unknown): boolean {
  return (
    error instanceof ApiFailure && error.status === 403 && error.message.includes("because it is being terminated")
  );
}

/** The Gateway that an object belongs to, as `namespace/name`. */
export function ownerOf(object: KubeObject): string {
  return `${labelOf(object, gatewayNamespaceLabel) ?? ""}/${labelOf(object, gatewayNameLabel) ?? ""}`;
}

function labelOf({ metadata }: KubeObject, label: string): string | undefined {
  const labels = isObject(metadata) ? metadata["labels"] : undefined;
  const value = isObject(labels) ? labels[label] : undefined;
  return typeof value === "string" ? value : undefined;
}

function hasOwner({ metadata }: KubeObject): boolean {
  return isObject(metadata) && Array.isArray(metadata["ownerReferences"]) && metadata["ownerReferences"].length > 0;
}

/** Being deleted already. */
function isLeaving({ metadata }: KubeObject): boolean {
  return isObject(metadata) && metadata["deletionTimestamp"] !== undefined;
}
