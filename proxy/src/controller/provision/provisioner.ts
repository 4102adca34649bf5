/**
 * Keeps the objects of Gateways as they should be: makes what is missing, repairs what somebody changed, deletes what is
 * not wanted any more. Only objects with our label are ever touched. What goes with its Gateway is left to Kubernetes'
 * garbage collection; what lies outside the Gateway's namespace is deleted here.
 */
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { inTurns, type Steps } from "@gatewayproxy/runtime/steps";
import type { NamedObject } from "../../api/resource.ts";
import { controllerName } from "../../api/names.ts";
import { type KubeApi, resourcePath } from "../../kube/api.ts";
import { ApiFailure } from "../../kube/api-failure.ts";
import type { ClusterConnection } from "../../kube/connection.ts";
import { fieldsOf, type KubeObject, objectsOf } from "../../kube/object.ts";
import { RepairLimit } from "../../kube/repair-limit.ts";
import { type ObjectWatch, watchObjects } from "../../kube/watch.ts";
import { gatewayNameLabel } from "../../translate/gateway-label.ts";
import { gatewayNamespaceLabel, managedBy, managedByLabel } from "./names.ts";
import {
  asAnswered,
  contains,
  type OwnedKind,
  ownedKey,
  ownedKinds,
  type OwnedObject,
  ownedPath,
  ownedTypes,
} from "./owned-object.ts";
import { narrowedRole, objectsReadBy } from "./roles.ts";
import { heldReplicas, replicasManager } from "./replicas.ts";

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

/** What could not be made so, each in one sentence. */
export interface ProvisionFaults {
  /** Of each Gateway, by `ownerKey`. */
  readonly gateways: ReadonlyMap<string, string>;
  /**
   * By Gateway (`ownerKey`), of the Secrets and ConfigMaps, by `objectKey`, that its proxies may not read for want of
   * rights in another namespace. The owner of that namespace may cause it, so the Gateway is not at fault.
   */
  readonly withheld: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/** What should be there, and whose objects are to be left as they are. */
export interface Provision {
  readonly wanted: readonly OwnedObject[];
  /** Gateways that exist, by `ownerKey`; what belongs to others goes with them. */
  readonly present: ReadonlySet<string>;
  /** Those of them whose workload stays as it is, because what it should be is not known; with their rights. */
  readonly frozen: ReadonlyMap<string, FrozenRights>;
}

/**
 * What becomes of the roles of a Gateway whose workload stays as it is: its proxies still run, and a permission that is
 * withdrawn must not outlive that.
 */
export type FrozenRights =
  /** What its references ask for, where it has been served before. */
  | { readonly kind: "known"; readonly roles: readonly OwnedObject[] }
  /** Its references are not known: what it has and may still read. */
  | { readonly kind: "unknown"; readonly mayRead: (object: NamedObject) => boolean };

export class Provisioner {
  readonly #options: ProvisionerOptions;
  readonly #watches: ReadonlyMap<OwnedKind, ObjectWatch<KubeObject>>;
  /**
   * What we applied last, by key, and what of it is to be seen in the object: a field that we drop is still in it, so
   * looking at it is not enough.
   */
  readonly #applied = new Map<string, { readonly text: string; readonly expected: unknown }>();
  readonly #repairs: RepairLimit;
  /** What could not be done, by key: each is logged once, and done after all else. */
  readonly #told = new Map<string, string>();
  /** Whether some namespace has more to be changed than one pass changes. */
  #isBehind = false;

  constructor(options: ProvisionerOptions) {
    this.#options = options;
    const { connection, clock, random, log, onChange } = options;
    this.#repairs = new RepairLimit(clock);
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

  /** Never rejects. */
  async reconcile({ wanted, present, frozen }: Provision): Promise<ProvisionFaults> {
    const kept = [...frozen.values()].flatMap((rights) => (rights.kind === "known" ? rights.roles : []));
    const served = this.#servedOwners();
    const left = this.#rightsLeft(frozen);
    const narrowed = left.filter((role) => role.body !== this.standing(role.kind, role.namespace, role.name));
    const all = [...wanted, ...kept.filter(({ body }) => served.has(ownerOf(body))), ...narrowed];
    const frozenNow: FrozenObjects = { owners: new Set(frozen.keys()), roles: new Set(left.map(placeOf)) };
    const owners = Map.groupBy(all, ownedKey);
    // Rights go first, and come first: pods need them, and what is withdrawn must not wait for the work of others.
    await this.#removeUnclaimed(isRight, owners, present, frozenNow);
    const faults = [
      ...(await this.#ensureAll(all.filter(isRight), present)),
      ...(await this.#ensureAll(
        all.filter((object) => !isRight(object)),
        present,
      )),
    ];
    await this.#removeUnclaimed((object) => !isRight(object), owners, present, frozenNow);
    const { log } = this.#options;
    log.debug(
      { wanted: all.length, frozen: frozen.size, faults: faults.length, isBehind: this.#isBehind },
      "provisioned",
    );
    this.#retain(new Set([...owners.keys(), ...this.#all().map(ownedKey)]));
    if (this.#takeBehind()) this.#options.onChange();
    const [foreign, own] = [true, false].map((isForeign) =>
      faults.filter(({ object }) => isForeignRight(object) === isForeign),
    );
    return {
      gateways: joined(own ?? [], ({ object }) => [ownerOf(object.body)]),
      withheld: new Map(
        Array.from(
          Map.groupBy(foreign ?? [], ({ object }) => ownerOf(object.body)),
          ([owner, ofOwner]) => [
            owner,
            joined(ofOwner, ({ object }) =>
              all.filter((each) => isSameRight(each, object)).flatMap(({ body }) => objectsReadBy(body)),
            ),
          ],
        ),
      ),
    };
  }

  /** Makes the objects of several namespaces at once; those of one namespace in order, as they may need each other. */
  async #ensureAll(objects: readonly OwnedObject[], present: Provision["present"]): Promise<readonly Fault[]> {
    const faults: Fault[] = [];
    const changed = await inTurns(this.#unlikeWanted(objects));
    const lanes = Map.groupBy(changed, ({ body }) => labelOf(body, gatewayNamespaceLabel));
    await inLanes([...lanes.values()], async (own) => {
      for (const { object, isInTurn } of this.#shareOf(own)) {
        const key = ownedKey(object);
        if (!isInTurn) {
          const told = this.#told.get(key);
          if (told !== undefined) faults.push({ object, message: told });
          continue;
        }
        const message = await this.#attempt(object, () => this.#ensure(object, present));
        if (message === undefined) continue;
        this.#told.set(key, message);
        faults.push({ object, message });
      }
    });
    return faults;
  }

  /** Objects that are not as they should be; to compare thousands takes time. */
  *#unlikeWanted(objects: readonly OwnedObject[]): Steps<readonly OwnedObject[]> {
    const unlike: OwnedObject[] = [];
    for (const object of objects) {
      if (this.#isAsWanted(object)) this.#told.delete(ownedKey(object));
      else unlike.push(object);
      this.#options.log.trace({ object: ownedKey(object), isAsWanted: unlike.at(-1) !== object }, "object compared");
      yield;
    }
    return unlike;
  }

  /**
   * What of a namespace's objects is changed in this pass. What has failed before comes last, and cannot keep the others
   * from being changed.
   */
  #shareOf(own: readonly OwnedObject[]): readonly { readonly object: OwnedObject; readonly isInTurn: boolean }[] {
    const [fresh = [], failed = []] = [false, true].map((isTold) =>
      own.filter((object) => this.#told.has(ownedKey(object)) === isTold),
    );
    if (fresh.length > changesPerPass) this.#isBehind = true;
    return [...fresh, ...failed].map((object, index) => ({ object, isInTurn: index < changesPerPass }));
  }

  /** Deletes what nobody wants any more. */
  async #removeUnclaimed(
    concerns: (object: OwnedObject) => boolean,
    owners: ReadonlyMap<string, readonly OwnedObject[]>,
    present: Provision["present"],
    frozen: FrozenObjects,
  ): Promise<void> {
    const unclaimed = this.#all().filter((object) => {
      const owner = ownerOf(object.body);
      const claims = owners.get(ownedKey(object)) ?? [];
      if (!concerns(object) || claims.some(({ body }) => ownerOf(body) === owner)) return false;
      if (isFrozen(object, frozen) || isLeaving(object.body)) return false;
      // Garbage collection sees to it, and it alone can be sure that the Gateway is gone.
      return present.has(owner) || (claims.length === 0 && !hasOwner(object.body));
    });
    // By where an object is, since whoever may write there may label it as he likes.
    const lanes = Map.groupBy(unclaimed, ({ namespace, body }) => namespace ?? labelOf(body, gatewayNamespaceLabel));
    await inLanes([...lanes.values()], async (own) => {
      for (const { object, isInTurn } of this.#shareOf(own)) {
        if (isInTurn) await this.#attempt(object, () => this.#remove(object));
      }
    });
  }

  /** Roles of Gateways whose references are not known, each with what its proxies may still read. */
  #rightsLeft(frozen: Provision["frozen"]): readonly OwnedObject[] {
    return this.#all().flatMap((object) => {
      const rights = object.kind === "Role" ? frozen.get(ownerOf(object.body)) : undefined;
      return rights?.kind === "unknown" ? (narrowedRole(object, rights.mayRead) ?? []) : [];
    });
  }

  /** Gateways that have been served: their binding to what all proxies may read is there. */
  #servedOwners(): ReadonlySet<string> {
    const bindings = this.#watches.get("ClusterRoleBinding")?.objects.values() ?? [];
    return new Set(Array.from(bindings, ownerOf));
  }

  /** Forgets what there was of all others. */
  #retain(keys: ReadonlySet<string>): void {
    for (const known of [this.#applied, this.#told]) {
      for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
    }
  }

  /** Stops watching. */
  close(): void {
    for (const watch of this.#watches.values()) watch.close();
  }

  async #attempt(object: OwnedObject, act: () => Promise<string | undefined>): Promise<string | undefined> {
    if (!this.#options.isLeader()) return undefined;
    try {
      const fault = await act();
      if (fault !== undefined) this.#options.log.debug({ object: ownedKey(object), fault }, "object left as it is");
      this.#told.delete(ownedKey(object));
      return fault;
    } catch (error) {
      const key = ownedKey(object);
      this.#applied.delete(key);
      if (isEndOfNamespace(error)) return undefined;
      const message = error instanceof Error ? error.message : String(error);
      // It is tried again every few seconds.
      if (this.#told.get(key) !== message) this.#options.log.warn({ object: key, err: error }, "cannot provision");
      this.#told.set(key, message);
      return message;
    }
  }

  #takeBehind(): boolean {
    const isBehind = this.#isBehind;
    this.#isBehind = false;
    return isBehind;
  }

  /** Whether an object is as we applied it last. */
  #isAsWanted(object: OwnedObject): boolean {
    const known = this.standing(object.kind, object.namespace, object.name);
    const applied = this.#applied.get(ownedKey(object));
    if (known === undefined || applied?.text !== JSON.stringify(object.body)) return false;
    return contains(known, applied.expected);
  }

  /** A fault, or undefined. */
  async #ensure(object: OwnedObject, present: Provision["present"]): Promise<string | undefined> {
    const { api, log } = this.#options;
    const key = ownedKey(object);
    const path = ownedPath(object);
    const known = this.standing(object.kind, object.namespace, object.name);
    const text = JSON.stringify(object.body);
    const applied = this.#applied.get(key);
    if (known !== undefined && applied?.text === text && !this.#repairs.take(key)) {
      return `${key} is changed by somebody else as often as it is put right`;
    }
    const standing = known ?? (await api.get(path));
    if (standing !== undefined) {
      const other = otherOwnerOf(standing, object.body, present);
      if (other !== undefined) return `${key} exists and is ${other}`;
      await this.#prepare(standing, object);
    }
    const answer = await api.apply(path, object.body, { fieldManager: controllerName });
    this.#applied.set(key, { text, expected: asAnswered(answer, object.body) });
    log.info({ object: key }, standing === undefined ? "made" : "changed");
    return undefined;
  }

  /** Makes way for changes that an apply alone cannot make, or not without harm. */
  async #prepare(standing: KubeObject, object: OwnedObject): Promise<void> {
    const { roleRef } = object.body;
    // A binding's role never changes; another one is another binding.
    if (roleRef !== undefined && !contains(standing["roleRef"], roleRef)) {
      await this.#remove({ ...object, body: standing });
    }
    const held = object.kind === "Deployment" ? heldReplicas(standing, object.body) : undefined;
    if (held !== undefined) {
      await this.#options.api.apply(ownedPath(object), held, { fieldManager: replicasManager });
    }
  }

  async #remove(object: OwnedObject): Promise<undefined> {
    const { uid } = fieldsOf(object.body["metadata"]);
    await this.#options.api.delete(ownedPath(object), String(uid));
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

interface Fault {
  readonly object: OwnedObject;
  readonly message: string;
}

/**
 * Objects of one namespace that are made or changed in one pass, rights and others each; and as many that are deleted. A namespace with more has the rest
 * in the next passes, so that the changes and statuses of others do not wait for thousands of its objects.
 */
const changesPerPass = 48;

/** Requests under way at once; more would be queued by the API server's fairness anyway. */
const parallel = 8;

async function inLanes<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const waiting = items.values();
  const lane = async () => {
    for (const item of waiting) await act(item);
  };
  await Promise.all(Array.from({ length: parallel }, lane));
}

/** What gives a ServiceAccount permissions. */
function isRight({ kind }: Pick<OwnedObject, "kind">): boolean {
  return kind === "Role" || kind === "RoleBinding" || kind === "ClusterRoleBinding";
}

/** A right in another namespace than its Gateway's; those of the whole cluster are none. */
function isForeignRight({ kind, namespace, body }: OwnedObject): boolean {
  return isRight({ kind }) && namespace !== undefined && namespace !== labelOf(body, gatewayNamespaceLabel);
}

/** Whether two are the same, or a Role and its binding. */
function isSameRight(a: OwnedObject, b: OwnedObject): boolean {
  return isRight(a) && a.namespace === b.namespace && a.name === b.name;
}

/** Messages of faults by each of their keys. */
function joined(faults: readonly Fault[], keysOf: (fault: Fault) => readonly string[]): ReadonlyMap<string, string> {
  const byKey = new Map<string, Set<string>>();
  for (const fault of faults) {
    for (const key of keysOf(fault)) byKey.set(key, (byKey.get(key) ?? new Set()).add(fault.message));
  }
  return new Map([...byKey].map(([key, messages]) => [key, joinSome(messages)]));
}

interface FrozenObjects {
  /** Gateways whose objects stay as they are, by `ownerKey`. */
  readonly owners: ReadonlySet<string>;
  /** By `placeOf`: Roles that stay, and so their bindings. */
  readonly roles: ReadonlySet<string>;
}

/** Whether an object that nobody asks for stays, because its Gateway's objects do. */
function isFrozen(object: OwnedObject, { owners, roles }: FrozenObjects): boolean {
  if (!owners.has(ownerOf(object.body))) return false;
  return object.namespace === undefined || !isRight(object) || roles.has(placeOf(object));
}

/** The same for a Role and its binding. */
function placeOf({ namespace = "", name, body }: OwnedObject): string {
  return `${ownerOf(body)} ${namespace}/${name}`;
}

/** A Gateway in a namespace that is being deleted needs nothing any more. */
function isEndOfNamespace(error: unknown): boolean {
  return (
    error instanceof ApiFailure && error.status === 403 && error.message.includes("because it is being terminated")
  );
}

/** Whose an object is that we must not touch; undefined where it is ours to change for the owner of `wanted`. */
function otherOwnerOf(standing: KubeObject, wanted: KubeObject, present: Provision["present"]): string | undefined {
  if (labelOf(standing, managedByLabel) !== managedBy) return "not ours";
  const owner = ownerOf(standing);
  return owner !== ownerOf(wanted) && present.has(owner) ? `that of Gateway ${owner}` : undefined;
}

/** The Gateway that an object belongs to, by `ownerKey`. */
function ownerOf(object: KubeObject): string {
  return `${labelOf(object, gatewayNamespaceLabel) ?? ""}/${labelOf(object, gatewayNameLabel) ?? ""}`;
}

function labelOf({ metadata }: KubeObject, label: string): string | undefined {
  const value = fieldsOf(fieldsOf(metadata)["labels"])[label];
  return typeof value === "string" ? value : undefined;
}

function hasOwner({ metadata }: KubeObject): boolean {
  return objectsOf(fieldsOf(metadata)["ownerReferences"]).length > 0;
}

/** Being deleted already. */
function isLeaving({ metadata }: KubeObject): boolean {
  return fieldsOf(metadata)["deletionTimestamp"] !== undefined;
}
