/**
 * The Kubernetes API as the source of configuration. It watches every kind that the gateway reads, publishes when all
 * of them have been listed, and again after every relevant change. A Secret or ConfigMap is watched by its name, if a
 * resource refers to it, so that a Role with `resourceNames` is sufficient. The Secrets and ConfigMaps of one namespace
 * share a quota, which bounds the number of watches.
 */
import { isDeepStrictEqual } from "node:util";
import { listSome } from "@gatewayproxy/runtime/bounded-text";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { memoised } from "@gatewayproxy/runtime/memoised";
import type { Problem } from "@gatewayproxy/runtime/problem";
import { runInSlices, type Steps } from "@gatewayproxy/runtime/steps";
import { type FieldError, renderPath } from "../../api/issue.ts";
import type { RejectedResource } from "../../api/rejected-resource.ts";
import {
  type NamedObject,
  renderKey,
  type Resource,
  type ResourceKey,
  resourceKey,
  type ResourceSet,
  resourceSet,
} from "../../api/resource.ts";
import type { ClusterConnection } from "../../kube/connection.ts";
import { fieldsOf, type KubeObject, keyOfObject, textOf } from "../../kube/object.ts";
import { FreedLists } from "../../kube/namespace-room.ts";
import { type WatchQuota, openWatchQuota } from "../../kube/watch-quota.ts";
import type { ObjectWatch } from "../../kube/object-watch.ts";
import { watchObjects } from "../../kube/watch.ts";
import { coalesce, type Coalescer } from "../coalesce.ts";
import { type CachedResource, cacheResource } from "./cached-resource.ts";
import { droppedFields } from "./dropped-fields.ts";
import {
  type BoundedGroup,
  groupOf,
  isWaiting,
  type KindMemory,
  openKindMemories,
  type ParsePart,
} from "./kind-memory.ts";
import { isDenied, NamedMemory, NamedTotal } from "./named-memory.ts";
import { Recovery } from "./recovery.ts";
import { isFaulty, listedObjectsWith, resourcesIn, wholeSet } from "./listed-objects.ts";
import { withKeptStatus } from "./kept-status.ts";
import { usedPart } from "./used-part.ts";
import { WaitBudget } from "./wait-budget.ts";
import { collectionPaths, namespacedPath, type WholeKind, wholeKinds } from "./watched-kinds.ts";

/** A configuration from a cluster. */
export interface KubernetesConfiguration {
  readonly resources: ResourceSet;
  readonly problems: readonly Problem[];
  /** Objects whose previous version is in force, because the current one is rejected. */
  readonly kept: readonly ResourceKey[];
  /** Objects that are rejected, in whole or in part. */
  readonly rejected: readonly RejectedResource[];
  /** Secrets and ConfigMaps that resources refer to and that this process may not read. */
  readonly unreadable: ReadonlySet<ResourceKey>;
  /** As `Selection.crowded`. */
  readonly crowded: ReadonlySet<string>;
  /** Where objects of a kind have no room in the memory of their namespace, as `placeKey`. Others may be left out. */
  readonly incomplete: ReadonlySet<string>;
  /** Kinds that this process may not read, or not in the served versions: it does not know whether objects exist. */
  readonly forbiddenKinds: readonly WholeKind[];
}

/** Options of `openKubernetesSource`. */
export interface KubernetesSourceOptions {
  /** The API server. */
  readonly connection: ClusterConnection;
  /** The clock of watches, retries and the delay after a change. */
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  /** Receives the progress of watches and their failures. */
  readonly log: Logger;
  /** Selects the resources of the cluster that this process needs; a pure function. */
  readonly select: (resources: ResourceSet) => Steps<Selection>;
  /** True for the process that writes statuses. Other processes ignore changes of a status. */
  readonly keepsStatus: boolean;
  /** The maximum length of the Secrets and ConfigMaps of a namespace. Default: that of `NamedMemory`. */
  readonly maxNamedLength?: number;
  /** The maximum memory of each group of kinds of a namespace. Default: that of `KindMemory`. */
  readonly maxKindBytes?: number | undefined;
  /** The maximum memory of all kinds of all namespaces. Default: a part of the heap. */
  readonly maxAllBytes?: number | undefined;
  /**
   * Kinds whose objects restrict or protect what the others serve. Nothing is published before these have been listed,
   * also while this process may not read them. Default: none.
   */
  readonly requiredKinds?: readonly WholeKind[];
  /** Receives a complete configuration: first when everything has been listed, then after each change. */
  readonly publish: (configuration: KubernetesConfiguration) => void;
  /**
   * Resolves when the last published configuration is applied, which takes the processor from the selection of the next
   * one. Selection begins afterwards. Never rejects. Default: at once.
   */
  readonly applied?: () => Promise<unknown>;
}

/** A part of a cluster's resources. */
export interface Selection {
  readonly resources: ResourceSet;
  /** The Secrets and ConfigMaps to which these resources refer. */
  readonly named: readonly NamedObject[];
  /** Namespaces whose resources refer to further ones, which are not read; absent: none. */
  readonly crowded?: ReadonlySet<string>;
  /** Selections of Secrets, for a process that may list them; absent: none. */
  readonly selections?: readonly SecretSelection[];
  /** Objects that could not be processed; absent: none. */
  readonly rejected?: readonly RejectedResource[];
  /** Whether a problem of an object, which may be invalid, concerns this process; absent: each does. */
  readonly concerns?: (object: KubeObject) => boolean;
}

/** The Secrets of a namespace with these labels. */
export interface SecretSelection {
  readonly namespace: string;
  /** In the syntax of the API server: `tier=customers`. */
  readonly labelSelector: string;
}

/** An open source. */
export interface KubernetesSource {
  /** The number of watches whose last request failed. Their objects may be out of date. */
  readonly failingWatches: number;
  /**
   * Whether the API server could not be reached, and nothing that was read afterwards is published. What was read
   * before must have no further effect: the API server may have another state now.
   */
  readonly isRecovering: boolean;
  close(): Promise<void>;
}

/**
 * Objects that are applied together arrive one after the other, such as a route and the policy that limits it. They are
 * published together if each follows the one before within this time.
 */
const quietMs = 30;
/** A rollout causes dozens of events. */
const maxMs = 250;

/**
 * Endpoints depend on no other object, and requests to a removed one fail until the removal is published. This applies
 * to the first event after `maxMs` without changes, since those that follow are probably a rollout.
 */
const endpointQuietMs = 5;

/**
 * The maximum time for which a Secret that cannot be read yet delays other changes. This includes a forbidden Secret,
 * because the controller may grant the role for a new reference a moment later.
 */
const namedWaitMs = 3_000;

/**
 * The minimum time between two reads of what had no room in a namespace. Each reads all objects of a selection again,
 * which may have tens of megabytes, and edits of the other objects can make room at any time.
 */
const reopenMs = 30_000;

/** Kinds whose absence is reported, because nothing is served or limits are missing without them. */
const expectedKinds: readonly WholeKind[] = ["GatewayClass", "Gateway", "HTTPRoute", "ProxyPolicy", "Backend"];

type ResourceWatch = ObjectWatch<CachedResource>;

type ObjectSelector = { readonly fieldSelector: string } | { readonly labelSelector: string };

/** Objects to watch in one namespace. */
interface Wanted {
  readonly kind: NamedObject["kind"];
  readonly namespace: string;
  readonly selector: ObjectSelector;
}

interface NamedWatch {
  readonly watch: ResourceWatch;
  readonly namespace: string;
  readonly sinceMs: number;
  /** Whether changes wait until the object is read. */
  readonly delaysChanges: boolean;
}

/** What the Secrets and ConfigMaps of one namespace take. */
interface NamespaceShare {
  readonly quota: WatchQuota;
  readonly memory: NamedMemory;
  /** The last time at which watches were opened again, since there was room. */
  reopenedMs: number;
}

/** Starts to watch. Retries until the API server can be reached. */
export function openKubernetesSource(options: KubernetesSourceOptions): KubernetesSource {
  return new Source(options);
}

class Source implements KubernetesSource {
  readonly #options: KubernetesSourceOptions;
  readonly #changes: Coalescer;
  readonly #whole: ReadonlyMap<WholeKind, ResourceWatch>;
  readonly #named = new Map<ResourceKey, NamedWatch>();
  readonly #memories: ReadonlyMap<BoundedGroup, KindMemory>;
  readonly #freed: FreedLists<string>;
  readonly #namedTotal = new NamedTotal();
  /** By namespace. */
  readonly #shares = new Map<string, NamespaceShare>();
  /** Watches that were closed to read their objects again. */
  readonly #reopened = new Set<ResourceKey>();
  #published: KubernetesConfiguration | undefined;
  /** The time at which a change started to wait for objects that are not read yet. */
  #waitingSinceMs: number | undefined;
  #waitTimer: Timer | undefined;
  readonly #recovery: Recovery;
  readonly #waits = new WaitBudget();
  /** Set while there is room for objects that may not be read yet. */
  #roomTimer: Timer | undefined;
  /** When the last changes were published. */
  #rebuiltMs = 0;
  #isClosed = false;
  /** Ends the wait of a change for the last configuration. */
  #endWait = (): void => undefined;

  constructor(options: KubernetesSourceOptions) {
    this.#options = options;
    const onFailure = (error: unknown, retryMs: number) =>
      options.log.error({ err: error, retryMs }, "cannot apply the configuration; the previous one stays in force");
    this.#changes = coalesce({ clock: options.clock, quietMs, maxMs, action: () => this.#rebuild(), onFailure });
    const { maxKindBytes, maxAllBytes, keepsStatus, clock } = options;
    this.#memories = openKindMemories({
      ...{ maxBytes: maxKindBytes, maxAllBytes, keepsStatus },
      replace: (kind, key, version) => this.#whole.get(kind as WholeKind)?.replace(key, version),
    });
    this.#freed = new FreedLists({
      clock,
      rooms: Array.from(this.#memories.values(), ({ room }) => room),
      listAgain: (kind, namespaces) => this.#whole.get(kind as WholeKind)?.listAgain(namespaces, isWaiting),
      onDue: () => this.#changes.trigger(),
    });
    this.#recovery = new Recovery(options.clock, () => this.#changes.trigger());
    this.#whole = new Map(wholeKinds.map((kind) => [kind, this.#watch(kind, collectionPaths(kind))]));
  }

  get failingWatches(): number {
    const named = Array.from(this.#named.values(), ({ watch }) => watch);
    return [...this.#whole.values(), ...named].filter(({ isFailing }) => isFailing).length;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endWait();
    this.#waitTimer?.cancel();
    this.#roomTimer?.cancel();
    this.#freed.close();
    for (const watch of this.#whole.values()) watch.close();
    for (const { watch } of this.#named.values()) watch.close();
    await this.#changes.close();
  }

  #watch(
    kind: WholeKind | NamedObject["kind"],
    paths: readonly [string, ...string[]],
    named?: { readonly selector: ObjectSelector } & NamespaceShare,
  ): ResourceWatch {
    const { connection, clock, random, log, keepsStatus } = this.#options;
    const group = groupOf(kind);
    const memory = group && this.#memories.get(group);
    const watch: ResourceWatch = watchObjects({
      connection,
      clock,
      random,
      log,
      paths,
      ...(named !== undefined && { selector: named.selector, quota: named.quota }),
      read: (whole, before: CachedResource | undefined, isAgain) => {
        const used = usedPart(whole);
        const object = keepsStatus ? withKeptStatus(used) : used;
        const read = (part: KubeObject, errors: readonly FieldError[]) =>
          cacheResource(part, before, { keepsStatus, errors });
        const dropped = droppedFields(whole);
        if (memory !== undefined) {
          const parse: ParsePart = (part, errors) => read(part, [...errors, ...dropped]);
          return memory.read(object, before, parse, isAgain);
        }
        const parse = () => read(object, dropped);
        if (named === undefined) return parse();
        return named.memory.read(object, before, parse, (denied) => watch.replace(keyOfObject(object), denied));
      },
      ...(named !== undefined && { onRemoved: (removed) => named.memory.release([removed]) }),
      ...(memory !== undefined && {
        onRemoved: (removed) => memory.release(removed),
        onList: (namespace) => memory.room.beginList(kind, namespace),
        onListed: (namespace) => {
          if (memory.listed(kind, namespace)) this.#changes.trigger();
        },
      }),
      onChange: () => this.#changes.trigger(this.#quietMsOf(kind)),
      onReceived: () => this.#recovery.received(),
      ...(named === undefined && {
        onOutOfDate: () => this.#recovery.becameOutOfDate(this.#kindsOutOfDate() === this.#whole.size),
      }),
    });
    return watch;
  }

  #substitutes(kind: WholeKind): readonly CachedResource[] {
    const group = groupOf(kind);
    return (group && this.#memories.get(group)?.substitutes(kind)) ?? [];
  }

  #quietMsOf(kind: WholeKind | NamedObject["kind"]): number {
    const isFirst = this.#options.clock.monotonicMs() - this.#rebuiltMs >= maxMs;
    return kind === "EndpointSlice" && isFirst ? endpointQuietMs : quietMs;
  }

  async #rebuild(): Promise<void> {
    await this.#lastApplied();
    this.#rebuiltMs = this.#options.clock.monotonicMs();
    if (this.#hasEnded() || !this.#isListed()) return;
    // The selection runs in steps. This copy keeps it consistent; changes during the selection trigger another run.
    const whole = Array.from(this.#whole, ([kind, { values }]) => ({
      kind,
      ...listedObjectsWith(values, ...this.#substitutes(kind)),
    }));
    const { outages } = this.#recovery;
    const isPartlyOld = this.#kindsAreAwaited();
    const {
      resources: selected,
      named,
      crowded = new Set<string>(),
      selections = [],
      rejected = [],
      concerns = () => true,
    } = await runInSlices(this.#options.select(wholeSet(whole)));
    if (this.#hasEnded()) return;
    this.#useFreedMemory();
    this.#watchNamed(named, selections);
    const isCopyOld = isPartlyOld || outages !== this.#recovery.outages;
    if (this.#waitsForNamed() || this.#waitsForKinds(isCopyOld)) {
      this.#publishGrants(selected);
      return;
    }
    this.#waitingSinceMs = undefined;
    this.#recovery.ended(this.#kindsOutOfDate() === 0);
    const cachedNamed = Array.from(this.#named.values(), ({ watch }) => watch.values).flat();
    const { Secret, ConfigMap } = resourceSet(distinctResources(cachedNamed));
    const rejectedBySelection = rejected.map(
      (each): CachedResource => ({ resource: undefined, rejected: each, unknownFields: [] }),
    );
    const concerning = whole.flatMap(({ faulty }) =>
      faulty.filter((each) => concerns(each.rejected?.object ?? { ...each.resource })),
    );
    const faulty = [...concerning, ...cachedNamed.filter(isFaulty), ...rejectedBySelection];
    const configuration: KubernetesConfiguration = {
      resources: { ...selected, Secret, ConfigMap },
      problems: [...this.#watchProblems(), ...faulty.flatMap(resourceProblems)],
      kept: faulty.flatMap(({ resource, rejected }) =>
        resource && rejected?.inForce === "lastValidVersion" ? [resourceKey(resource)] : [],
      ),
      rejected: faulty.flatMap(({ rejected }) => rejected ?? []),
      unreadable: this.#unreadable(),
      crowded: crowded.union(this.#namespacesWithDenied()),
      incomplete: new Set(Array.from(this.#memories.values(), (memory) => memory.incomplete()).flat()),
      forbiddenKinds: [...this.#whole].flatMap(([kind, { state }]) => (isUnknown(state) ? [kind] : [])),
    };
    this.#publish(configuration);
  }

  #isListed(): boolean {
    const { requiredKinds = [] } = this.#options;
    // Before 1.4, the Gateway API has earlier versions of BackendTLSPolicy only, which are not applied.
    const isMissing = (kind: WholeKind, state: ResourceWatch["state"]) =>
      requiredKinds.includes(kind) && isUnknown(state) && !(kind === "BackendTLSPolicy" && state.kind === "unread");
    return [...this.#whole].every(([kind, { state }]) => state.kind !== "starting" && !isMissing(kind, state));
  }

  /** Resolves when the last configuration is applied, or when the source is closed. */
  async #lastApplied(): Promise<void> {
    const applied = this.#options.applied?.();
    if (applied === undefined || this.#hasEnded()) return;
    await new Promise<void>((resolve) => {
      this.#endWait = resolve;
      void applied.finally(resolve);
    });
  }

  #hasEnded(): boolean {
    return this.#isClosed;
  }

  #publish(configuration: KubernetesConfiguration): void {
    // Most changes of a cluster do not concern selected resources. The comparison is cheap, because unchanged parts are
    // the same objects.
    if (isDeepStrictEqual(configuration, this.#published)) return;
    this.#published = configuration;
    this.#options.publish(configuration);
  }

  /**
   * Publishes the current grants at once, so that a withdrawn permission does not stay in force while other changes
   * wait.
   */
  #publishGrants({ ReferenceGrant }: ResourceSet): void {
    if (this.#published === undefined) return;
    const { resources } = this.#published;
    this.#publish({ ...this.#published, resources: { ...resources, ReferenceGrant } });
  }

  /** Reads objects again for which there was no room and is room now, if need be later. */
  #useFreedMemory(): void {
    this.#freed.use();
    const waitMs = this.#reopenNamed();
    this.#roomTimer?.cancel();
    if (Number.isFinite(waitMs)) {
      this.#roomTimer = this.#options.clock.setTimer(waitMs, () => this.#changes.trigger());
    }
  }

  /**
   * Closes watches of named objects, which are opened again. Returns the time until further ones may be closed, in ms;
   * infinity if there are none.
   */
  #reopenNamed(): number {
    const now = this.#options.clock.monotonicMs();
    const byNamespace = Map.groupBy(this.#named, ([, { namespace }]) => namespace);
    let waitMs = Number.POSITIVE_INFINITY;
    for (const [namespace, own] of byNamespace) {
      const share = this.#shares.get(namespace);
      const hasRoom = share?.memory.count(own.map(([, { watch }]) => watch.values)) ?? [];
      if (share === undefined || !hasRoom.includes(true)) continue;
      const leftMs = share.reopenedMs + reopenMs - now;
      if (leftMs > 0) {
        waitMs = Math.min(waitMs, leftMs);
        continue;
      }
      share.reopenedMs = now;
      for (const [at, [key]] of own.entries()) {
        if (hasRoom[at] !== true) continue;
        this.#closeNamed(key);
        this.#reopened.add(key);
      }
    }
    return waitMs;
  }

  #closeNamed(key: ResourceKey): void {
    const named = this.#named.get(key);
    if (named === undefined) return;
    named.watch.close();
    this.#shares.get(named.namespace)?.memory.release(named.watch.values);
    this.#named.delete(key);
  }

  #namespacesWithDenied(): ReadonlySet<string> {
    const denied = [...this.#named.values()].filter(({ watch }) => watch.values.some(isDenied));
    return new Set(denied.map(({ namespace }) => namespace));
  }

  /** Opens watches of these objects, and closes all other watches of named objects. */
  #watchNamed(named: readonly NamedObject[], selections: readonly SecretSelection[]): void {
    const desired = new Map<ResourceKey, Wanted>([
      ...named.map(({ kind, namespace, name }): [ResourceKey, Wanted] => [
        renderKey(kind, namespace, name),
        { kind, namespace, selector: { fieldSelector: `metadata.name=${name}` } },
      ]),
      ...selections.map(({ namespace, labelSelector }): [ResourceKey, Wanted] => [
        `Secrets of ${namespace} with ${labelSelector}`,
        { kind: "Secret", namespace, selector: { labelSelector } },
      ]),
    ]);
    for (const key of this.#named.keys()) if (!desired.has(key)) this.#closeNamed(key);
    for (const [key, { kind, namespace, selector }] of desired) {
      if (this.#named.has(key)) continue;
      const share = this.#shares.get(namespace) ?? this.#newShare(namespace);
      this.#shares.set(namespace, share);
      // The first configuration waits for every object. Later, a namespace with many objects must not delay the others.
      const isNeeded = "labelSelector" in selector || !this.#reopened.has(key);
      const delaysChanges = this.#published === undefined || (share.quota.hasRoom && isNeeded);
      const watch = this.#watch(kind, [namespacedPath(kind, namespace)], { selector, ...share });
      this.#named.set(key, { watch, namespace, sinceMs: this.#options.clock.monotonicMs(), delaysChanges });
    }
    this.#reopened.clear();
    const inUse = new Set(Array.from(desired.values(), ({ namespace }) => namespace));
    for (const [namespace, { memory }] of this.#shares) {
      if (inUse.has(namespace)) continue;
      memory.close();
      this.#shares.delete(namespace);
    }
  }

  #newShare(namespace: string): NamespaceShare {
    const memory = new NamedMemory({ max: this.#options.maxNamedLength, total: { namespace, of: this.#namedTotal } });
    return { quota: openWatchQuota(), memory, reopenedMs: Number.NEGATIVE_INFINITY };
  }

  /**
   * Whether changes wait for a newly referenced object, with a timer for the end of that time. Changes wait at most
   * `namedWaitMs`, even if new references are added meanwhile, and seldom for the same namespace.
   */
  #waitsForNamed(): boolean {
    const { clock } = this.#options;
    const now = clock.monotonicMs();
    const delaying = [...this.#named.values()].filter(
      ({ watch: { state }, delaysChanges, sinceMs }) => delaysChanges && isUnread(state) && sinceMs + namedWaitMs > now,
    );
    this.#waitTimer?.cancel();
    this.#waits.wait(new Set(), now);
    const unread = delaying.filter(({ namespace }) => this.#waits.allows(namespace, now));
    if (unread.length === 0) return false;
    this.#waitingSinceMs ??= now;
    const latest = unread.reduce((last, { sinceMs }) => Math.max(last, sinceMs + namedWaitMs), now);
    const leftMs = Math.min(latest, this.#waitingSinceMs + namedWaitMs) - now;
    if (leftMs <= 0) return false;
    this.#waits.wait(new Set(unread.map(({ namespace }) => namespace)), now);
    this.#waitTimer = clock.setTimer(leftMs, () => this.#changes.trigger());
    return true;
  }

  get isRecovering(): boolean {
    return this.#recovery.isBehind;
  }

  /** Whether changes wait for kinds that are out of date. */
  #kindsAreAwaited(): boolean {
    return this.#recovery.leftMs > 0 && this.#kindsOutOfDate() > 0;
  }

  #kindsOutOfDate(): number {
    return [...this.#whole.values()].filter(({ isOutOfDate }) => isOutOfDate).length;
  }

  /**
   * Whether to wait for kinds that are out of date, with a timer for the end of that time.
   *
   * @param isCopyOld whether some were when the objects were copied; then they are copied again.
   */
  #waitsForKinds(isCopyOld: boolean): boolean {
    if (!this.#kindsAreAwaited()) {
      const isToBeCopied = isCopyOld && !this.#recovery.hasWaitedLong;
      if (isToBeCopied) this.#changes.trigger();
      return isToBeCopied;
    }
    const { leftMs } = this.#recovery;
    if (Number.isFinite(leftMs)) this.#waitTimer = this.#options.clock.setTimer(leftMs, () => this.#changes.trigger());
    return true;
  }

  #unreadable(): ReadonlySet<ResourceKey> {
    const forbidden = [...this.#named].filter(([, { watch }]) => watch.state.kind === "forbidden");
    return new Set(forbidden.map(([key]) => key));
  }

  #watchProblems(): readonly Problem[] {
    const whole = Array.from(this.#whole, ([kind, watch]) => watchProblems(kind, watch, expectedKinds.includes(kind)));
    const named = Array.from(this.#named, ([key, { watch }]) => watchProblems(key, watch, false));
    return [...whole, ...named].flat();
  }
}

/** Whether objects may exist that this process cannot read. */
function isUnknown({ kind }: ResourceWatch["state"]): boolean {
  return kind === "forbidden" || kind === "unread";
}

function isUnread({ kind }: ResourceWatch["state"]): boolean {
  return kind === "starting" || kind === "forbidden";
}

/** An object may be named and selected: it is watched twice, and is one resource. */
function distinctResources(cached: readonly CachedResource[]): readonly Resource[] {
  return [...new Map(resourcesIn(cached).map((resource) => [resourceKey(resource), resource])).values()];
}

function watchProblems(name: string, { state }: ResourceWatch, isExpected: boolean): readonly Problem[] {
  switch (state.kind) {
    case "forbidden":
      return [{ message: `cannot read ${name}, which needs the verbs list and watch: ${state.message}` }];
    case "unread":
      if (!isExpected) return [];
      return [{ message: `cannot read ${name}, which the API server serves as ${listSome(state.versions)} only` }];
    case "absent":
      if (!isExpected) return [];
      return [{ message: `the API server does not know the kind ${name}: its CustomResourceDefinition is missing` }];
    case "starting":
      return [{ message: `cannot read ${name} yet; trying again` }];
    case "synced":
      return [];
  }
}

/** Returns the errors of a rejected version, and its ignored fields. */
const resourceProblems = memoised(({ resource, rejected, unknownFields }: CachedResource): readonly Problem[] => {
  const key = rejected === undefined ? resource && resourceKey(resource) : keyOf(rejected);
  return [...(rejected?.errors ?? []), ...unknownFields].map(({ path, message }) => ({
    message,
    ...(key !== undefined && { resource: key }),
    ...(path.length > 0 && { path: renderPath(path) }),
  }));
});

function keyOf({ object }: RejectedResource): ResourceKey {
  const { kind, metadata } = object;
  const { namespace, name } = fieldsOf(metadata);
  return renderKey(textOf(kind), typeof namespace === "string" ? namespace : undefined, textOf(name));
}
