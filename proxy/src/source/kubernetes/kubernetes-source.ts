/**
 * The Kubernetes API as the source of configuration: watches every kind that we read, publishes all of it once
 * everything has been listed, and again after every change that concerns us. Secrets and ConfigMaps are watched one by
 * one, as resources name them, so that a Role with `resourceNames` is all the permission it takes. Those of a namespace
 * share a lane, which bounds how many are watched.
 */
import { isDeepStrictEqual } from "node:util";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { Problem } from "@gatewayproxy/runtime/problem";
import { inTurns, type Steps } from "@gatewayproxy/runtime/steps";
import { renderPath } from "../../api/issue.ts";
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
import { fieldsOf, textOf } from "../../kube/object.ts";
import { type Lane, openLane } from "../../kube/lane.ts";
import { type ObjectWatch, watchObjects } from "../../kube/watch.ts";
import { coalesce, type Coalescer } from "../coalesce.ts";
import { type HeldResource, holdResource } from "./held-resource.ts";
import { collectionPaths, namespacedPath, type WholeKind, wholeKinds } from "./watched-kinds.ts";

export interface KubernetesConfiguration {
  readonly resources: ResourceSet;
  readonly problems: readonly Problem[];
  /** Objects of which an earlier version is in force, because theirs is refused. */
  readonly kept: readonly ResourceKey[];
  /** Objects that are refused, as a whole or in part. */
  readonly rejected: readonly RejectedResource[];
  /** Secrets and ConfigMaps that are named and may not be read. */
  readonly unreadable: ReadonlySet<ResourceKey>;
  /** Kinds that may not be read: of them nothing is known, not even that there is none. */
  readonly forbiddenKinds: readonly WholeKind[];
}

export interface KubernetesSourceOptions {
  readonly connection: ClusterConnection;
  readonly clock: Clock;
  /** From 0 to 1, for jitter. */
  readonly random: () => number;
  readonly log: Logger;
  /** What of the cluster's resources concerns this process; a pure function. */
  readonly select: (resources: ResourceSet) => Steps<Selection>;
  /** For who writes statuses; for others a new status is no change. */
  readonly keepsStatus: boolean;
  /** Takes a complete configuration: first when everything has been listed, then after each change. */
  readonly publish: (configuration: KubernetesConfiguration) => void;
}

/** A part of a cluster's resources. */
export interface Selection {
  readonly resources: ResourceSet;
  /** Which Secrets and ConfigMaps they name. */
  readonly named: readonly NamedObject[];
  /** Objects that could not be judged; absent: none. */
  readonly rejected?: readonly RejectedResource[];
}

export interface KubernetesSource {
  close(): Promise<void>;
}

/** As for files: a rollout is dozens of events. */
const quietMs = 50;
const maxMs = 250;

/**
 * A Secret that cannot be read yet holds everything else back for so long at most: also one that may not be read, since
 * whoever gives a Gateway its roles hears of the reference no sooner than we do.
 */
const namedWaitMs = 3_000;

/** Kinds without which there is nothing to serve, or limits would be missing: worth a word while they are unknown. */
const expectedKinds: readonly WholeKind[] = ["GatewayClass", "Gateway", "HTTPRoute", "ProxyPolicy", "Backend"];

type ResourceWatch = ObjectWatch<HeldResource>;

interface NamedWatch {
  readonly watch: ResourceWatch;
  readonly sinceMs: number;
  /** Whether changes wait until it is read. */
  readonly holdsBack: boolean;
}

/** Begins to watch; what cannot be reached is tried again for ever. */
export function openKubernetesSource(options: KubernetesSourceOptions): KubernetesSource {
  return new Source(options);
}

class Source implements KubernetesSource {
  readonly #options: KubernetesSourceOptions;
  readonly #changes: Coalescer;
  readonly #whole: ReadonlyMap<WholeKind, ResourceWatch>;
  readonly #named = new Map<ResourceKey, NamedWatch>();
  /** By namespace. */
  readonly #lanes = new Map<string, Lane>();
  #published: KubernetesConfiguration | undefined;
  /** Since when a change is held back for objects that are not read yet. */
  #heldSinceMs: number | undefined;
  #lookAgain: Timer | undefined;
  #isClosed = false;

  constructor(options: KubernetesSourceOptions) {
    this.#options = options;
    const onFailure = (error: unknown, retryMs: number) =>
      options.log.error({ err: error, retryMs }, "cannot take the configuration; the last one stays in force");
    this.#changes = coalesce({ clock: options.clock, quietMs, maxMs, action: () => this.#rebuild(), onFailure });
    this.#whole = new Map(wholeKinds.map((kind) => [kind, this.#watch(collectionPaths(kind))]));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#lookAgain?.cancel();
    for (const watch of this.#whole.values()) watch.close();
    for (const { watch } of this.#named.values()) watch.close();
    await this.#changes.close();
  }

  #watch(
    paths: readonly [string, ...string[]],
    named?: { readonly fieldSelector: string; readonly lane: Lane },
  ): ResourceWatch {
    const { connection, clock, random, log, keepsStatus } = this.#options;
    return watchObjects({
      connection,
      clock,
      random,
      log,
      paths,
      ...(named !== undefined && { selector: { fieldSelector: named.fieldSelector }, lane: named.lane }),
      read: (object, before: HeldResource | undefined) => holdResource(object, before, { keepsStatus }),
      onChange: () => this.#changes.poke(),
    });
  }

  async #rebuild(): Promise<void> {
    if (this.#hasEnded() || [...this.#whole.values()].some(({ state }) => state.kind === "starting")) return;
    // What changes during the selection asks for the next one; this one is of a single moment.
    const heldNow = heldIn(this.#whole.values());
    const {
      resources: selected,
      named,
      rejected = [],
    } = await inTurns(this.#options.select(resourceSet(resourcesOf(heldNow))));
    if (this.#hasEnded()) return;
    this.#watchNamed(named);
    if (this.#waitsForNamed()) {
      this.#withdraw(selected);
      return;
    }
    this.#heldSinceMs = undefined;
    const heldNamed = heldIn(Array.from(this.#named.values(), ({ watch }) => watch));
    const { Secret, ConfigMap } = resourceSet(resourcesOf(heldNamed));
    const unjudged = rejected.map((each): HeldResource => ({ resource: undefined, rejected: each, unknownFields: [] }));
    const held = [...heldNow, ...heldNamed, ...unjudged];
    const configuration: KubernetesConfiguration = {
      resources: { ...selected, Secret, ConfigMap },
      problems: [...this.#watchProblems(), ...held.flatMap(resourceProblems)],
      kept: held.flatMap(({ resource, rejected }) =>
        resource && rejected?.inForce === "lastSoundVersion" ? [resourceKey(resource)] : [],
      ),
      rejected: held.flatMap(({ rejected }) => rejected ?? []),
      unreadable: this.#unreadable(),
      forbiddenKinds: [...this.#whole].flatMap(([kind, { state }]) => (state.kind === "forbidden" ? [kind] : [])),
    };
    this.#publish(configuration);
  }

  #hasEnded(): boolean {
    return this.#isClosed;
  }

  #publish(configuration: KubernetesConfiguration): void {
    // Most changes of a cluster concern none of our resources. What did not change is the same object: this is cheap.
    if (isDeepStrictEqual(configuration, this.#published)) return;
    this.#published = configuration;
    this.#options.publish(configuration);
  }

  /** Puts the grants of now in force at once: what is held back must not keep a permission that is withdrawn. */
  #withdraw({ ReferenceGrant }: ResourceSet): void {
    if (this.#published === undefined) return;
    const { resources } = this.#published;
    this.#publish({ ...this.#published, resources: { ...resources, ReferenceGrant } });
  }

  /** Watches what is named now, and nothing else. */
  #watchNamed(named: readonly NamedObject[]): void {
    const wanted = new Map(named.map((object) => [renderKey(object.kind, object.namespace, object.name), object]));
    for (const [key, { watch }] of this.#named) {
      if (wanted.has(key)) continue;
      watch.close();
      this.#named.delete(key);
    }
    for (const [key, { kind, namespace, name }] of wanted) {
      if (this.#named.has(key)) continue;
      const lane = this.#lanes.get(namespace) ?? openLane();
      this.#lanes.set(namespace, lane);
      // At the start everything is waited for; later a namespace with many must not hold the others back.
      const holdsBack = this.#published === undefined || lane.hasRoom;
      const watch = this.#watch([namespacedPath(kind, namespace)], { fieldSelector: `metadata.name=${name}`, lane });
      this.#named.set(key, { watch, sinceMs: this.#options.clock.monotonicMs(), holdsBack });
    }
    const inUse = new Set(named.map(({ namespace }) => namespace));
    for (const namespace of this.#lanes.keys()) if (!inUse.has(namespace)) this.#lanes.delete(namespace);
  }

  /**
   * True while an object that has just been named may yet be read; looks again when that has taken long enough. Whoever
   * names a new object again and again holds nothing back for longer.
   */
  #waitsForNamed(): boolean {
    const { clock } = this.#options;
    const now = clock.monotonicMs();
    const since = [...this.#named.values()].filter(({ watch: { state }, holdsBack }) => holdsBack && isUnread(state));
    this.#lookAgain?.cancel();
    const waits = since.some(({ sinceMs }) => sinceMs + namedWaitMs > now);
    if (!waits) return false;
    this.#heldSinceMs ??= now;
    const latest = since.reduce((last, { sinceMs }) => Math.max(last, sinceMs + namedWaitMs), now);
    const leftMs = Math.min(latest, this.#heldSinceMs + namedWaitMs) - now;
    if (leftMs <= 0) return false;
    this.#lookAgain = clock.setTimer(leftMs, () => this.#changes.poke());
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

function isUnread({ kind }: ResourceWatch["state"]): boolean {
  return kind === "starting" || kind === "forbidden";
}

function heldIn(watches: Iterable<ResourceWatch>): readonly HeldResource[] {
  return Array.from(watches, ({ objects }) => [...objects.values()]).flat();
}

function resourcesOf(held: readonly HeldResource[]): readonly Resource[] {
  return held.flatMap(({ resource }) => resource ?? []);
}

function watchProblems(what: string, { state }: ResourceWatch, isExpected: boolean): readonly Problem[] {
  switch (state.kind) {
    case "forbidden":
      return [{ message: `cannot read ${what}, which needs the verbs list and watch: ${state.message}` }];
    case "absent":
      if (!isExpected) return [];
      return [{ message: `the API server does not know the kind ${what}: its CustomResourceDefinition is missing` }];
    case "starting":
      return [{ message: `cannot read ${what} yet; it is tried again` }];
    case "synced":
      return [];
  }
}

/** Faults of a version that is refused, and fields that were passed over. */
function resourceProblems({ resource, rejected, unknownFields }: HeldResource): readonly Problem[] {
  const key = rejected === undefined ? resource && resourceKey(resource) : keyOf(rejected);
  return [...(rejected?.faults ?? []), ...unknownFields].map(({ path, message }) => ({
    message,
    ...(key !== undefined && { resource: key }),
    ...(path.length > 0 && { path: renderPath(path) }),
  }));
}

function keyOf({ object }: RejectedResource): ResourceKey {
  const { kind, metadata } = object;
  const { namespace, name } = fieldsOf(metadata);
  return renderKey(textOf(kind), typeof namespace === "string" ? namespace : undefined, textOf(name));
}
