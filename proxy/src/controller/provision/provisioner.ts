/**
 * Reconciles the objects of Gateways: creates missing objects, repairs changed ones, and deletes those that are not
 * desired any more. A workload that another one replaces is deleted when the other serves. The provisioner changes only
 * objects with the controller's label. The garbage collection of Kubernetes deletes
 * the objects of a deleted Gateway in its namespace; the provisioner deletes the others.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { runInSlices, type Steps } from "@gatewayproxy/runtime/steps";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import type { NamedObject } from "../../api/resource.ts";
import { controllerName } from "../../api/names.ts";
import { type KubeApi, resourcePath } from "../../kube/api.ts";
import { ApiFailure } from "../../kube/api-failure.ts";
import type { ClusterConnection } from "../../kube/connection.ts";
import { fieldsOf, type KubeObject, objectsOf } from "../../kube/object.ts";
import { FreedLists } from "../../kube/namespace-room.ts";
import { RepairLimit } from "../../kube/repair-limit.ts";
import { unfinished, UnfinishedWrites } from "../../kube/unfinished-writes.ts";
import type { ObjectWatch } from "../../kube/object-watch.ts";
import { watchObjects } from "../../kube/watch.ts";
import { inParallel, maxPassMs, Turns } from "../../kube/write-order.ts";
import { gatewayNamespaceLabel, labelOf, managedBy, managedByLabel, ownerOf } from "./names.ts";
import {
  appliedFields,
  contains,
  isRightKind,
  observedObjects,
  type OwnedKind,
  ownedKey,
  ownedKinds,
  type OwnedObject,
  ownedPath,
  ownedTypes,
  withDigest,
} from "./owned-object.ts";
import { accountUidIn, uidOf, withAccountUid } from "./account-uid.ts";
import { withDigests } from "./kept-part.ts";
import { OwnedMemory } from "./owned-memory.ts";
import { narrowedRole, objectsReadBy, withoutNewRights } from "./roles.ts";
import { retainedReplicas, replicasManager } from "./replicas.ts";
import { accountNameIn, isComplete, isWorkload, withReplicasOf, withUnchangeable } from "./workload-change.ts";

/** Collaborators of a `Provisioner`. */
export interface ProvisionerOptions {
  /** Opens the watches of owned objects. */
  readonly connection: ClusterConnection;
  /** Reads and changes objects. */
  readonly api: Pick<KubeApi, "get" | "apply" | "delete">;
  /** The clock of the watches and their retries. */
  readonly clock: Clock;
  /** 0 ≤ random() < 1, for jitter. */
  readonly random: () => number;
  /** Receives each change of an object, and failures. */
  readonly log: Logger;
  /** Called before each change, because a replica that is not the leader any more must not make changes. */
  readonly isLeader: () => boolean;
  /** The maximum time of the pass in progress, called before each object; absent: `maxPassMs`. */
  readonly passMs?: () => number;
  /**
   * Whether ReferenceGrants of a namespace have changed since the objects were planned. Then nothing gets rights to
   * more objects of this namespace before the next pass. Default: none have changed.
   */
  readonly hasNewGrants?: (namespace: string) => boolean;
  /** Called when an owned object, or the state of a watch, has changed. */
  readonly onChange: () => void;
  /** The size of the heap, of which the objects of a namespace have a part. Default: that of this process. */
  readonly heapBytes?: number;
}

/** The reasons why objects could not be reconciled, each in one sentence. */
export interface ProvisionErrors {
  /** By Gateway (`ownerKey`). */
  readonly gateways: ReadonlyMap<string, string>;
  /**
   * By Gateway (`ownerKey`) and by object (`referentKey`): the reason why its proxies cannot read a Secret or ConfigMap
   * of another namespace. It is not an error of the Gateway, because the owner of that namespace may have caused it.
   */
  readonly withheld: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/** No errors. */
export const noProvisionErrors: ProvisionErrors = { gateways: new Map(), withheld: new Map() };

/** The desired objects, and the Gateways whose objects stay unchanged. */
export interface Provision {
  readonly desired: readonly OwnedObject[];
  /** Gateways that exist, by `ownerKey`. Objects of other Gateways are deleted. */
  readonly present: ReadonlySet<string>;
  /** Gateways whose workload stays unchanged because its desired state is unknown, with their rights; by `ownerKey`. */
  readonly suspended: ReadonlyMap<string, SuspendedRights>;
  /** Namespaces that are being deleted. The API server accepts no new objects there. */
  readonly terminating: ReadonlySet<string>;
}

/**
 * The rights of a Gateway whose workload stays unchanged. Its proxies still run, and must lose each withdrawn
 * permission.
 */
export type SuspendedRights =
  /** Its references are known: it has the roles for them, if it has been served before. */
  | { readonly kind: "known"; readonly roles: readonly OwnedObject[] }
  /** Its references are unknown: it keeps those of its current rights that are still permitted. */
  | { readonly kind: "unknown"; readonly mayRead: (object: NamedObject) => boolean };

/** Watches all owned objects and reconciles them with the desired ones. */
export class Provisioner {
  readonly #options: ProvisionerOptions;
  readonly #watches: ReadonlyMap<OwnedKind, ObjectWatch<KubeObject>>;
  readonly #memory: OwnedMemory;
  readonly #freed: FreedLists<OwnedKind>;
  /**
   * The last applied object, by key, with the fields expected in the API server. A comparison with the current object
   * is not sufficient, because that may still contain a field that is not applied any more.
   */
  readonly #applied = new Map<string, { readonly text: string; readonly expected: unknown }>();
  readonly #repairs: RepairLimit;
  /** The errors of the last attempts, by key. Each is logged once, and its object is reconciled after all others. */
  readonly #errors = new Map<string, { readonly message: string; readonly attempt: number }>();
  /** The number of attempts that have failed. */
  #failedAttempts = 0;
  /** The uids of ServiceAccounts that the current pass has applied, by key. Watches report them later. */
  readonly #appliedAccounts = new Map<string, string | undefined>();
  readonly #unfinished: UnfinishedWrites;
  /** Of what is written, and of what is deleted; of rights and of other objects each. */
  readonly #turns = {
    rights: new Turns(),
    others: new Turns(),
    surplusRights: new Turns(),
    surplusOthers: new Turns(),
  };
  /** Whether a namespace has more changes than the maximum of one pass. */
  #hasMoreChanges = false;

  constructor(options: ProvisionerOptions) {
    this.#options = options;
    const { connection, clock, random, log, onChange } = options;
    this.#repairs = new RepairLimit(clock);
    this.#memory = new OwnedMemory({
      heapBytes: options.heapBytes,
      onLeftOut: (kind, key) => this.#watches.get(kind)?.replace(key, undefined),
    });
    this.#freed = new FreedLists({
      ...{ clock, rooms: this.#memory.rooms, onDue: onChange },
      // An object that is known stays as it is.
      listAgain: (kind, namespaces) => this.#watches.get(kind)?.listAgain(namespaces, () => false),
    });
    this.#unfinished = new UnfinishedWrites({ clock, onWritten: onChange });
    this.#watches = new Map(
      ownedKinds.map((kind) => [
        kind,
        watchObjects({
          ...{ connection, clock, random, log, onChange },
          paths: [resourcePath(ownedTypes[kind])],
          selector: { labelSelector: `${managedByLabel}=${managedBy}` },
          read: (object: KubeObject, before: KubeObject | undefined, isAgain: boolean) =>
            this.#memory.read(kind, object, before, isAgain),
          onRemoved: (removed: KubeObject) => this.#memory.release(removed),
          onList: (namespace?: string) => this.#memory.roomOf(kind).beginList(kind, namespace),
        }),
      ]),
    );
  }

  /** Whether the objects of each kind were listed, or may not be listed. */
  get isListed(): boolean {
    return [...this.#watches.values()].every(({ state }) => state.kind === "synced" || state.kind === "forbidden");
  }

  /**
   * Why the objects of a kind are unknown, in one sentence; undefined if all are known. Nothing is created, changed or
   * deleted then, because objects depend on each other.
   */
  get listError(): string | undefined {
    const errors = [...this.#watches].flatMap(([kind, { state }]) =>
      state.kind === "forbidden"
        ? [`the controller cannot read ${kind}, which needs the verbs list and watch: ${state.message}`]
        : [],
    );
    return errors.length === 0 ? undefined : joinSome(errors);
  }

  /** Whether the objects of a kind are known. */
  isKnown(kind: OwnedKind): boolean {
    return this.#watches.get(kind)?.state.kind === "synced";
  }

  /** Returns the current state of an owned object; undefined if it does not exist. */
  current(kind: OwnedKind, namespace: string | undefined, name: string): KubeObject | undefined {
    return this.#watches.get(kind)?.objects.get(objectKey({ namespace, name }));
  }

  /** Reconciles all objects. Never rejects. Resolves with the errors. */
  async reconcile({ desired, present, suspended, terminating }: Provision): Promise<ProvisionErrors> {
    if (this.listError !== undefined) return noProvisionErrors;
    this.#freed.use();
    this.#appliedAccounts.clear();
    const kept = [...suspended.values()].flatMap((rights) => (rights.kind === "known" ? rights.roles : []));
    const served = this.#ownersWithBinding();
    const remaining = this.#remainingRoles(suspended);
    const narrowed = remaining.filter((role) => role.body !== this.current(role.kind, role.namespace, role.name));
    const all = [...desired, ...kept.filter(({ body }) => served.has(ownerOf(body))), ...narrowed];
    const suspendedNow: SuspendedObjects = {
      owners: new Set(suspended.keys()),
      roles: new Set(remaining.map(roleKey)),
      replaced: new Set(),
    };
    const owners = Map.groupBy(all, ownedKey);
    // Rights are removed and created first, because pods need them, and a withdrawal must not wait for other objects.
    await this.#removeUnclaimed(isRight, this.#turns.surplusRights, { owners, present, suspended: suspendedNow });
    const lasting = all.filter(({ namespace = "" }) => !terminating.has(namespace));
    const errors = [
      ...(await this.#ensureAll(lasting.filter(isRight), this.#turns.rights, present)),
      ...(await this.#ensureAll(lasting.filter(isNoRight), this.#turns.others, present)),
    ];
    const replaced = this.#replacedWorkloads(desired);
    const suspendedThen = { ...suspendedNow, replaced };
    await this.#removeUnclaimed(isNoRight, this.#turns.surplusOthers, { owners, present, suspended: suspendedThen });
    const { log } = this.#options;
    log.debug(
      { desired: all.length, suspended: suspended.size, failed: errors.length, hasMoreChanges: this.#hasMoreChanges },
      "provisioned",
    );
    this.#retain(new Set([...owners.keys(), ...this.#all().map(ownedKey)]));
    if (this.#resetHasMoreChanges()) this.#options.onChange();
    const [foreign, own] = [true, false].map((isForeign) =>
      errors.filter(({ object }) => isRightElsewhere(object) === isForeign),
    );
    return {
      gateways: joinedMessages(own ?? [], ({ object }) => [ownerOf(object.body)]),
      withheld: new Map(
        Array.from(
          Map.groupBy(foreign ?? [], ({ object }) => ownerOf(object.body)),
          ([owner, ofOwner]) => [
            owner,
            joinedMessages(ofOwner, ({ object }) =>
              all.filter((each) => isSameRight(each, object)).flatMap(({ body }) => objectsReadBy(body)),
            ),
          ],
        ),
      ),
    };
  }

  /**
   * Applies objects: those of several Gateways in parallel, in turns between namespaces, and those of one Gateway in
   * order, because they depend on each other.
   */
  async #ensureAll(
    objects: readonly OwnedObject[],
    turns: Turns,
    present: Provision["present"],
  ): Promise<readonly ProvisionError[]> {
    const errors: ProvisionError[] = [];
    const changed = await runInSlices(this.#changed(objects));
    const batches = Map.groupBy(changed, namespaceOfGateway);
    const lanes = Array.from(batches, ([namespace, own]): [string, readonly (readonly Selected[])[]] => {
      const share = this.#shareOf(own, (object) => this.#isCurrentRole(object));
      return [namespace, [...Map.groupBy(share, ({ object }) => ownerOf(object.body)).values()]];
    });
    const hasTime = this.#passTime();
    await inParallel(turns.order(new Map(lanes)), async (lane) => {
      /** Namespaces with an unfinished write, on which the next objects of the lane may depend. */
      const waiting = new Set<string | undefined>();
      for (const { object, isInPass } of lane) {
        const isNow = isInPass && hasTime() && !waiting.has(object.namespace);
        this.#hasMoreChanges ||= isInPass && !hasTime();
        const permitted = isNow ? this.#permittedNow(object) : undefined;
        if (isNow && permitted === undefined) continue;
        if (isNow) turns.start(namespaceOfGateway(object));
        const outcome = permitted && (await this.#attempt(object, () => this.#ensure(permitted, present)));
        if (outcome === unfinished) waiting.add(object.namespace);
        const error = this.#errors.get(ownedKey(object));
        if (error !== undefined) errors.push({ object, message: error.message });
      }
    });
    return errors;
  }

  /** Starts a part of a pass. The returned function returns whether its time is left. */
  #passTime(): () => boolean {
    const { clock, passMs = () => maxPassMs } = this.#options;
    const startMs = clock.monotonicMs();
    return () => clock.monotonicMs() - startMs < passMs();
  }

  /** Returns an object as it may be applied, if grants may have been withdrawn since it was planned. */
  #permittedNow(object: OwnedObject): OwnedObject | undefined {
    const { kind, namespace, name } = object;
    const { hasNewGrants = () => false } = this.#options;
    if (namespace === undefined || !isRightElsewhere(object) || !hasNewGrants(namespace)) return object;
    return withoutNewRights(object, this.current(kind, namespace, name));
  }

  /** Returns the objects that differ from their current state. Runs in steps, because there may be thousands. */
  *#changed(objects: readonly OwnedObject[]): Steps<readonly OwnedObject[]> {
    const changed: OwnedObject[] = [];
    for (const object of objects) {
      if (this.#isCurrent(object)) this.#errors.delete(ownedKey(object));
      else changed.push(object);
      this.#options.log.trace({ object: ownedKey(object), isCurrent: changed.at(-1) !== object }, "object compared");
      yield;
    }
    return changed;
  }

  /**
   * Selects the objects of a namespace for this pass. Objects that failed before come last, so that they do not delay
   * the others. Rights that are withdrawn are selected whatever their number; of those that failed before, the first
   * ones, and others in the next passes.
   */
  #shareOf(own: readonly OwnedObject[], isWithdrawal: (object: OwnedObject) => boolean): readonly Selected[] {
    const attemptOf = (object: OwnedObject): number => this.#errors.get(ownedKey(object))?.attempt ?? 0;
    const fresh = own.filter((object) => attemptOf(object) === 0);
    // Those that failed last come last.
    const failed = own.filter((object) => attemptOf(object) > 0).sort((a, b) => attemptOf(a) - attemptOf(b));
    if (fresh.length > changesPerPass) this.#hasMoreChanges = true;
    return [...fresh, ...failed].map((object, index) => {
      const isAmongFirst = index < fresh.length + changesPerPass;
      return { object, isInPass: index < changesPerPass || (isAmongFirst && isWithdrawal(object)) };
    });
  }

  /** Whether an object is a Role that exists. A change of it may withdraw rights. */
  #isCurrentRole({ kind, namespace, name }: OwnedObject): boolean {
    return kind === "Role" && this.current(kind, namespace, name) !== undefined;
  }

  /** Deletes objects that are not desired any more. */
  async #removeUnclaimed(
    concerns: (object: OwnedObject) => boolean,
    turns: Turns,
    { owners, present, suspended }: Claims,
  ): Promise<void> {
    const unclaimed = this.#all().filter((object) => {
      const owner = ownerOf(object.body);
      const claims = owners.get(ownedKey(object)) ?? [];
      if (!concerns(object) || claims.some(({ body }) => ownerOf(body) === owner)) return false;
      if (isSuspended(object, suspended) || isBeingDeleted(object.body)) return false;
      // An object of a Gateway that is not known is left to garbage collection if it has an owner reference.
      return present.has(owner) || (claims.length === 0 && !hasOwner(object.body));
    });
    // Grouped by the namespace of the object, because anyone who may write there can change its labels.
    const namespaceOf = (object: OwnedObject) => object.namespace ?? namespaceOfGateway(object);
    const batches = Map.groupBy(unclaimed, namespaceOf);
    const hasTime = this.#passTime();
    const shares = new Map(Array.from(batches, ([namespace, own]) => [namespace, this.#shareOf(own, isRight)]));
    await inParallel(turns.order(shares), async ({ object, isInPass }) => {
      const isNow = isInPass && hasTime();
      this.#hasMoreChanges ||= isInPass && !isNow;
      if (!isNow) return;
      turns.start(namespaceOf(object));
      await this.#attempt(object, () => this.#remove(object));
    });
  }

  /**
   * Returns the roles of Gateways whose references are unknown, restricted to the objects that their proxies may still
   * read.
   */
  #remainingRoles(suspended: Provision["suspended"]): readonly OwnedObject[] {
    return this.#all().flatMap((object) => {
      const rights = object.kind === "Role" ? suspended.get(ownerOf(object.body)) : undefined;
      return rights?.kind === "unknown" ? (narrowedRole(object, rights.mayRead) ?? []) : [];
    });
  }

  /** Returns the workloads that serve until those that replace them do, by owner and key. */
  #replacedWorkloads(desired: readonly OwnedObject[]): ReadonlySet<string> {
    return new Set(
      desired.flatMap(({ kind, namespace, name, body, replaces }) => {
        if (replaces === undefined || isComplete(this.current(kind, namespace, name))) return [];
        return [`${ownerOf(body)} ${ownedKey({ ...replaces, namespace })}`];
      }),
    );
  }

  /** Returns the Gateways that have been served: their ClusterRoleBinding exists. */
  #ownersWithBinding(): ReadonlySet<string> {
    const bindings = this.#watches.get("ClusterRoleBinding")?.objects.values() ?? [];
    return new Set(Array.from(bindings, ownerOf));
  }

  /** Drops the state of all other objects. */
  #retain(keys: ReadonlySet<string>): void {
    for (const known of [this.#applied, this.#errors]) {
      for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
    }
  }

  /** Whether changes, also of objects that no Gateway needs any more, have failed or are still in progress. */
  get hasOpenChanges(): boolean {
    return this.#unfinished.exist || this.#errors.size > 0;
  }

  /** Resolves when the writes for which no pass waits have ended. */
  async writesEnded(): Promise<void> {
    await this.#unfinished.ended();
  }

  /** Stops watching. */
  close(): void {
    this.#freed.close();
    for (const watch of this.#watches.values()) watch.close();
  }

  /** Changes an object, and records the error. Resolves with `unfinished` if the change is in progress afterwards. */
  async #attempt(object: OwnedObject, act: () => Promise<string | undefined>): Promise<boolean | typeof unfinished> {
    const { namespace = namespaceOfGateway(object) } = object;
    return await this.#unfinished.run({ namespace, key: ownedKey(object) }, () => this.#change(object, act));
  }

  /** Resolves with whether the object is as it should be. */
  async #change(object: OwnedObject, act: () => Promise<string | undefined>): Promise<boolean> {
    const key = ownedKey(object);
    if (!this.#options.isLeader()) return false;
    try {
      const error = await act();
      if (error === undefined) {
        this.#errors.delete(key);
        return true;
      }
      this.#options.log.debug({ object: key, error }, "object left unchanged");
      this.#setError(key, error);
    } catch (error) {
      this.#applied.delete(key);
      if (isNamespaceTerminating(error)) {
        this.#errors.delete(key);
        return false;
      }
      const message = errorMessage(error);
      // Attempts are repeated every few seconds, so only a new error is logged.
      if (this.#errors.get(key)?.message !== message) {
        this.#options.log.warn({ object: key, err: error }, "cannot reconcile an object of a Gateway");
      }
      this.#setError(key, message);
    }
    return false;
  }

  #setError(key: string, message: string): void {
    this.#errors.set(key, { message, attempt: ++this.#failedAttempts });
  }

  #resetHasMoreChanges(): boolean {
    const hasMoreChanges = this.#hasMoreChanges;
    this.#hasMoreChanges = false;
    return hasMoreChanges;
  }

  /**
   * Returns the object to apply: a workload depends on its ServiceAccount, on its own current state and on that of the
   * workload that it replaces. While the account is missing, the workload stays as it is.
   */
  #resolved(object: OwnedObject): OwnedObject {
    if (!isWorkload(object)) return object;
    const { kind, namespace } = object;
    const current = this.current(kind, namespace, object.name);
    const account = accountNameIn(object);
    const applied = this.#appliedAccounts.get(objectKey({ namespace, name: account }));
    const known = uidOf(this.current("ServiceAccount", namespace, account));
    const withAccount = withAccountUid(object, applied ?? known ?? accountUidIn(current));
    if (current !== undefined) return withUnchangeable(withAccount, current);
    const { replaces } = object;
    return withReplicasOf(withAccount, replaces && this.current(replaces.kind, namespace, replaces.name));
  }

  /**
   * Whether an object is in the state that was applied last. An object that this process has not applied yet is current
   * if its annotation has the digest of this content, and no other writer has changed its fields since. Fields that the
   * API server has normalised count as changed then, and the object is applied.
   */
  #isCurrent(unresolved: OwnedObject): boolean {
    const object = this.#resolved(unresolved);
    const current = this.current(object.kind, object.namespace, object.name);
    if (current === undefined) return false;
    const text = JSON.stringify(object.body);
    const applied = this.#applied.get(ownedKey(object));
    if (applied !== undefined) return applied.text === text && contains(current, applied.expected);
    const expected = withDigests(withDigest(object).body);
    if (!contains(current, expected)) return false;
    this.#applied.set(ownedKey(object), { text, expected });
    return true;
  }

  /** Applies an object. Resolves with an error, or undefined. */
  async #ensure(unresolved: OwnedObject, present: Provision["present"]): Promise<string | undefined> {
    const { api, log } = this.#options;
    const object = this.#resolved(unresolved);
    const key = ownedKey(object);
    const path = ownedPath(object);
    const known = this.current(object.kind, object.namespace, object.name);
    const text = JSON.stringify(object.body);
    const applied = this.#applied.get(key);
    const current = known ?? (await api.get(path));
    const isUnknown = known === undefined && this.#memory.leavesOut(object.kind, object.namespace);
    // Whether it is as it should be would remain unknown after another write, too.
    if (current !== undefined && applied?.text === text && isUnknown) {
      return `${key} is not watched: ${object.namespace ?? ""} has more objects with the label ${managedByLabel}: ${managedBy} than the memory of the controller has room for; delete some, or raise its memory limit`;
    }
    if (current !== undefined && applied?.text === text && !this.#repairs.take(key)) {
      return `${key} is changed by another writer each time the controller repairs it`;
    }
    if (current !== undefined) {
      const other = describeOtherOwner(current, object.body, present);
      if (other !== undefined) return `${key} already exists and ${other}`;
      await this.#prepare(current, object);
    }
    const { body } = withDigest(object);
    const response = await api.apply(path, body, { fieldManager: controllerName });
    this.#applied.set(key, { text, expected: withDigests(fieldsOf(appliedFields(response, body))) });
    if (object.kind === "ServiceAccount") this.#appliedAccounts.set(objectKey(object), uidOf(response));
    log.info({ object: key }, current === undefined ? "created" : "changed");
    return undefined;
  }

  /** Prepares changes for which one apply is not sufficient, or would cause an outage. */
  async #prepare(current: KubeObject, object: OwnedObject): Promise<void> {
    const { roleRef } = object.body;
    // The roleRef of a binding is immutable, so the binding has to be deleted first.
    if (roleRef !== undefined && !contains(current["roleRef"], roleRef)) {
      await this.#remove({ ...object, body: current });
    }
    const retained = isWorkload(object) ? retainedReplicas(current, object.body) : undefined;
    if (retained !== undefined) {
      await this.#options.api.apply(ownedPath(object), retained, { fieldManager: replicasManager });
    }
  }

  async #remove(object: OwnedObject): Promise<undefined> {
    const { uid } = fieldsOf(object.body["metadata"]);
    await this.#options.api.delete(ownedPath(object), String(uid));
    this.#applied.delete(ownedKey(object));
    this.#options.log.info({ object: ownedKey(object) }, "deleted");
  }

  #all(): readonly OwnedObject[] {
    return [...this.#watches].flatMap(([kind, { values }]) => observedObjects(values, kind));
  }
}

/** An object of a pass. */
interface Selected {
  readonly object: OwnedObject;
  readonly isInPass: boolean;
}

interface ProvisionError {
  readonly object: OwnedObject;
  readonly message: string;
}

/**
 * The maximum of objects of one namespace that one pass applies, for rights and for other objects each, and the maximum
 * that it deletes. The others follow in the next passes, so that other namespaces do not wait for thousands of objects.
 * Rights that are withdrawn are not bounded by it, as long as the pass has time.
 */
const changesPerPass = 48;

/** Whether an object gives a ServiceAccount permissions. */
function isRight({ kind }: Pick<OwnedObject, "kind">): boolean {
  return isRightKind(kind);
}

function isNoRight(object: OwnedObject): boolean {
  return !isRight(object);
}

/** Returns the namespace of the Gateway to which an object belongs. */
function namespaceOfGateway({ body }: OwnedObject): string {
  return labelOf(body, gatewayNamespaceLabel) ?? "";
}

/** Whether a right is in another namespace than its Gateway. Cluster-scoped rights are not. */
function isRightElsewhere({ kind, namespace, body }: OwnedObject): boolean {
  return isRight({ kind }) && namespace !== undefined && namespace !== labelOf(body, gatewayNamespaceLabel);
}

/** Whether two objects are the same, or a Role and its binding. */
function isSameRight(a: OwnedObject, b: OwnedObject): boolean {
  return isRight(a) && a.namespace === b.namespace && a.name === b.name;
}

/** Returns the joined messages of errors, by each of their keys. */
function joinedMessages(
  errors: readonly ProvisionError[],
  keysOf: (error: ProvisionError) => readonly string[],
): ReadonlyMap<string, string> {
  const byKey = new Map<string, Set<string>>();
  for (const error of errors) {
    for (const key of keysOf(error)) byKey.set(key, (byKey.get(key) ?? new Set()).add(error.message));
  }
  return new Map([...byKey].map(([key, messages]) => [key, joinSome(messages)]));
}

/** What decides whether an object stays. */
interface Claims extends Pick<Provision, "present"> {
  /** The desired objects, by `ownedKey`. */
  readonly owners: ReadonlyMap<string, readonly OwnedObject[]>;
  readonly suspended: SuspendedObjects;
}

interface SuspendedObjects {
  /** As `#replacedWorkloads` returns them. */
  readonly replaced: ReadonlySet<string>;
  /** Gateways whose objects stay unchanged, by `ownerKey`. */
  readonly owners: ReadonlySet<string>;
  /** Roles that stay, with their bindings, by `roleKey`. */
  readonly roles: ReadonlySet<string>;
}

/** Whether an object that is not desired stays because the objects of its Gateway do, or because it still serves. */
function isSuspended(object: OwnedObject, { owners, roles, replaced }: SuspendedObjects): boolean {
  if (replaced.has(`${ownerOf(object.body)} ${ownedKey(object)}`)) return true;
  if (!owners.has(ownerOf(object.body))) return false;
  return object.namespace === undefined || !isRight(object) || roles.has(roleKey(object));
}

/** Returns a key that is the same for a Role and its binding. */
function roleKey({ namespace = "", name, body }: OwnedObject): string {
  return `${ownerOf(body)} ${namespace}/${name}`;
}

/** Whether a request failed because the namespace is being deleted. Then its objects are not needed any more. */
function isNamespaceTerminating(error: unknown): boolean {
  return (
    error instanceof ApiFailure && error.status === 403 && error.message.includes("because it is being terminated")
  );
}

/**
 * Describes the other owner of an object, which must not be changed then; undefined if the owner of `desired` owns it.
 */
function describeOtherOwner(
  current: KubeObject,
  desired: KubeObject,
  present: Provision["present"],
): string | undefined {
  if (labelOf(current, managedByLabel) !== managedBy && !wasApplied(current, desired)) {
    return `is not managed by ${managedBy} (label ${managedByLabel}); delete it, or set the label to ${managedBy} so that the controller takes it over`;
  }
  const owner = ownerOf(current);
  return owner !== ownerOf(desired) && present.has(owner) ? `belongs to Gateway ${owner}` : undefined;
}

/**
 * Whether an object without the label of this controller is one of its objects nevertheless: the label was removed. The
 * object is owned by the same Gateway, or has fields that this controller has applied.
 */
function wasApplied(current: KubeObject, desired: KubeObject): boolean {
  const { ownerReferences, managedFields } = fieldsOf(current["metadata"]);
  const uids = objectsOf(fieldsOf(desired["metadata"])["ownerReferences"]).map(({ uid }) => uid);
  return (
    objectsOf(ownerReferences).some(({ controller, uid }) => controller === true && uids.includes(uid)) ||
    objectsOf(managedFields).some(({ manager, operation }) => manager === controllerName && operation === "Apply")
  );
}

function hasOwner({ metadata }: KubeObject): boolean {
  return objectsOf(fieldsOf(metadata)["ownerReferences"]).length > 0;
}

/** Whether an object is being deleted. */
function isBeingDeleted({ metadata }: KubeObject): boolean {
  return fieldsOf(metadata)["deletionTimestamp"] !== undefined;
}
