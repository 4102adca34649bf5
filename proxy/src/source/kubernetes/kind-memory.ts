/**
 * Bounds the memory of the objects of each namespace, by groups of kinds. Every process reads those of all namespaces,
 * and anyone may write thousands with a megabyte each, or tens of thousands of small ones: without a bound, those of
 * one tenant end the controller and all proxies, at every start again.
 *
 * The groups have bounds of their own, so that Backends, which a tenant may write, take no room from policies, which
 * perhaps only an operator may write.
 */
import { getHeapStatistics } from "node:v8";
import { routeKinds } from "@gatewayproxy/runtime/route-key";
import { maxNameLength } from "../../api/endpoint-slice.ts";
import type { FieldError } from "../../api/issue.ts";
import type { Resource } from "../../api/resource.ts";
import { maxServicePorts } from "../../api/service.ts";
import { longStatusOf } from "../../kube/long-status.ts";
import { NamespaceRoom, type Place, SharedRoom } from "../../kube/namespace-room.ts";
import { NumbersByKey } from "../../kube/numbers-by-key.ts";
import { fieldsOf, type KubeObject, keyOfObject, objectsOf, textOf } from "../../kube/object.ts";
import { bytesIn } from "../../kube/object-bytes.ts";
import { ReadOrder } from "../../kube/read-order.ts";
import { TotalRoom } from "../../kube/total-room.ts";
import { type CachedResource, cacheResource } from "./cached-resource.ts";

/** Kinds whose objects share a bound in each namespace. */
interface Group {
  readonly kinds: readonly string[];
  /** The part of the heap that they may take, by the estimates below. */
  readonly share: number;
  /** What each takes beside its content, in bytes. */
  readonly objectBytes: number;
  readonly words: string;
  /**
   * Kinds that restrict others, and that perhaps only an operator may write, take no part of what the others may take
   * together.
   */
  readonly isRestricting?: true;
}

const groups = {
  routes: { kinds: routeKinds, share: 1 / 8, objectBytes: 2_048, words: "routes" },
  gateways: {
    ...{ kinds: ["Gateway", "ListenerSet"], share: 1 / 16, objectBytes: 8_192 },
    words: "Gateways and ListenerSets",
  },
  backends: { kinds: ["Backend"], share: 1 / 16, objectBytes: 4_096, words: "Backends" },
  policies: { kinds: ["ProxyPolicy"], share: 1 / 16, objectBytes: 4_096, words: "ProxyPolicies", isRestricting: true },
  tlsPolicies: {
    kinds: ["BackendTLSPolicy"],
    share: 1 / 32,
    objectBytes: 2_048,
    words: "BackendTLSPolicies",
    isRestricting: true,
  },
  grants: {
    kinds: ["ReferenceGrant"],
    share: 1 / 32,
    objectBytes: 1_024,
    words: "ReferenceGrants",
    isRestricting: true,
  },
  services: { kinds: ["Service"], share: 1 / 16, objectBytes: 1_024, words: "Services" },
  endpointSlices: { kinds: ["EndpointSlice"], share: 1 / 16, objectBytes: 1_024, words: "EndpointSlices" },
} as const satisfies Record<string, Group>;

/** A group of kinds with a bound. */
export type BoundedGroup = keyof typeof groups;

/** All groups. */
// Object.keys loses the literal types of the table above.
export const boundedGroups = Object.keys(groups) as readonly BoundedGroup[];

/** Returns the group of a kind; undefined if it has no bound. */
export function groupOf(kind: string): BoundedGroup | undefined {
  return boundedGroups.find((name) => (groups[name].kinds as readonly string[]).includes(kind));
}

/** New objects without room of one kind in one namespace that are kept, to say so in their status. */
const maxWaiting = 64;
/** Those of all kinds and namespaces, shared equally. Each kind of a namespace keeps one in any case. */
const maxWaitingOfAll = 2_048;
/**
 * Estimated bytes of what an object contains, with what the controller computes of it. Measured with objects of
 * different shapes: they take 0.7 to 2.5 times as much.
 */
const contentSizes = {
  map: 256,
  field: 16,
  /** Of these lists, results, statuses and messages are kept. */
  items: { parentRefs: 2_048, backendRefs: 1_024, hostnames: 768, targetRefs: 512, listeners: 512 },
};
/** The same of a status, which nothing is computed of. */
const statusSizes = { map: 64, field: 16 };
/** Of an endpoint beside its two texts, and of a port beside its name. */
const endpointBytes = 80;
const portBytes = 160;
/** Targets of a policy without room, and parents of a route, at which it has a status. */
const maxTargets = 16;
const maxParents = 4;

/** What a version takes of the memory of its namespace. */
interface Usage {
  readonly kind: string;
  readonly namespace: string;
  /** As `keyOfObject`. */
  readonly key: string;
  readonly bytes: number;
  /** Of its status. */
  readonly statusBytes: number;
  /**
   * - `read`: it has room.
   * - `waiting`: it has none, and is rejected.
   * - `representing`: it has none either. Its targets are hidden: it may have those of all objects that are not kept.
   */
  readonly state: "read" | "waiting" | "representing";
}

/** The usage of each version that is kept. */
const usages = new WeakMap<CachedResource, Usage>();

/** Whether a version had no room when it was read. */
export function isWaiting(version: CachedResource): boolean {
  return isWithoutRoom(usages.get(version));
}

function isWithoutRoom(usage: Usage | undefined): boolean {
  return usage !== undefined && usage.state !== "read";
}

/**
 * What all groups but the restricting ones take together, as a part of the heap, with what each has for itself: who may
 * write one kind must not take all room of another.
 */
const togetherPart = 3 / 16;
/** What a group has for itself, as a part of what its objects may take. */
const ownPart = 1 / 8;
/** What the statuses of a group take beside its objects, as a part of what these take. */
const statusPart = 1 / 4;

/**
 * What the objects of all namespaces take together, and their statuses, as parts of the heap. With Secrets, what is
 * computed and the objects of the controller, that leaves little of it.
 */
const totalPart = 1 / 4;
const totalStatusPart = 1 / 16;

/** The memories of all groups of a process. */
export function openKindMemories({
  maxAllBytes = heapBytes() * totalPart,
  ...options
}: Omit<KindMemoryOptions, "shared" | "total" | "totalStatus" | "waiting"> & {
  /** Default: a part of the heap. */
  readonly maxAllBytes?: number | undefined;
}): ReadonlyMap<BoundedGroup, KindMemory> {
  const all: readonly Group[] = boundedGroups.map((group) => groups[group]);
  const own = all.reduce((sum, { share, isRestricting }) => sum + (isRestricting === true ? 0 : share * ownPart), 0);
  const shared = {
    shared: new SharedRoom(heapBytes() * (togetherPart - own)),
    total: new TotalRoom(maxAllBytes),
    totalStatus: new TotalRoom(heapBytes() * totalStatusPart),
    waiting: new NumbersByKey(),
  };
  return new Map(boundedGroups.map((group) => [group, new KindMemory(group, { ...options, ...shared })]));
}

function heapBytes(): number {
  return getHeapStatistics().heap_size_limit;
}

/** Options of a `KindMemory`. */
export interface KindMemoryOptions {
  /** Of a namespace. Default: the part of the heap of the group. */
  readonly maxBytes?: number | undefined;
  /** Whether statuses are kept. Who may write them may write any text. Default: false. */
  readonly keepsStatus?: boolean;
  /** What the groups take together; absent: nothing. */
  readonly shared?: SharedRoom;
  /** What all namespaces take, and what their statuses take; absent: no maximum. */
  readonly total?: TotalRoom;
  readonly totalStatus?: TotalRoom;
  /** The objects without room that all groups keep, by `placeKey`. Default: those of this group. */
  readonly waiting?: NumbersByKey;
  /**
   * Replaces the version of an object that loses its room, or what is kept of its status. Undefined is left out.
   * Default: none is replaced.
   *
   * @param key as `keyOfObject`.
   */
  readonly replace?: (kind: string, key: string, version: CachedResource | undefined) => void;
}

/** A version that represents others no more. */
interface Substitute extends Place {
  readonly version: CachedResource;
}

/** Parses a part of an object, with errors for which it is rejected. */
export type ParsePart = (object: KubeObject, errors: readonly FieldError[]) => CachedResource;

/** The objects of a group of kinds in all namespaces. */
export class KindMemory {
  readonly #group: Group;
  /** The maximum of the estimated bytes of one namespace. */
  readonly maxBytes: number;
  readonly #keepsStatus: boolean;
  /** Where further objects are without room, they are left out. */
  readonly room: NamespaceRoom;
  readonly #statusRoom: NamespaceRoom;
  readonly #total: TotalRoom | undefined;
  readonly #replace: NonNullable<KindMemoryOptions["replace"]>;
  /** The versions that take some of the room, and those with a status that does. */
  readonly #order = new ReadOrder<CachedResource>();
  readonly #statusOrder = new ReadOrder<CachedResource>();
  /** Objects without room that are kept, by `placeKey`. */
  readonly #waiting: NumbersByKey;
  /** Those of them that represent others. */
  readonly #representing = new NumbersByKey();
  /** Those that represent others no more, until another one does, by `placeKey`. */
  readonly #substitutes = new Map<string, Substitute>();

  constructor(of: BoundedGroup, options: KindMemoryOptions = {}) {
    const group: Group = groups[of];
    const { maxBytes, keepsStatus = false, shared, total, totalStatus, waiting, replace = () => undefined } = options;
    this.#group = group;
    this.#keepsStatus = keepsStatus;
    this.#replace = replace;
    this.#total = total;
    this.#waiting = waiting ?? new NumbersByKey();
    this.maxBytes = maxBytes ?? Math.floor(heapBytes() * group.share);
    this.room = new NamespaceRoom({
      ...{ kinds: group.kinds, maxBytes: this.maxBytes },
      ...(shared !== undefined &&
        group.isRestricting !== true && { shared: { room: shared, ownBytes: this.maxBytes * ownPart } }),
      ...(total !== undefined && { total }),
      onCut: (namespace, bytes) => this.#cut(namespace, bytes),
      areWaiting: (kind, namespace) => this.#waiting.of(placeKey({ kind, namespace })) > 0,
    });
    this.#statusRoom = new NamespaceRoom<string>({
      ...{ kinds: [], maxBytes: this.maxBytes * statusPart },
      ...(totalStatus !== undefined && { total: totalStatus }),
      onCut: (namespace, bytes) => this.#cutStatuses(namespace, bytes),
    });
  }

  /**
   * Returns an object as it is parsed, or rejected if its namespace has no room for it. Returns undefined for a new
   * object if many others without room are kept, of which one represents it. If the statuses of its namespace have
   * no room, nothing but a hash of a further one is kept: a status must not decide whether an object is rejected, which
   * changes its status.
   *
   * @param before the previous version, which this one replaces.
   * @param isAgain whether the object had no room before.
   */
  read(
    whole: KubeObject,
    before: CachedResource | undefined,
    parse: ParsePart,
    isAgain = false,
  ): CachedResource | undefined {
    const kind = textOf(whole["kind"]);
    const namespace = textOf(fieldsOf(whole["metadata"])["namespace"]);
    const usageBefore = before && usages.get(before);
    const { object, statusBytes } = this.#withinStatusRoom(whole, namespace, usageBefore);
    const of = { kind, namespace, key: usageBefore?.key ?? keyOfObject(whole), statusBytes };
    const bytes = this.#group.objectBytes + contentBytes(object);
    if (this.room.has(namespace, bytes, usageBefore?.bytes, isAgain)) {
      return this.#keep(parse(object, []), before, { ...of, bytes, state: "read" });
    }
    this.room.reject(kind, namespace, bytes);
    const hasOwn = this.room.hasOwn(namespace, bytes, usageBefore?.bytes);
    const represents = this.#represents(kind, namespace, usageBefore);
    if (represents === undefined) return undefined;
    const error = hasOwn ? this.#noRoomOfAll(namespace) : this.#noRoom(namespace);
    const read = parse(withReferences(object, !represents), [error]);
    // The last valid version may stay in force.
    const keptBytes = read.rejected?.inForce === "lastValidVersion" ? (usageBefore?.bytes ?? 0) : 0;
    return this.#keep(read, before, { ...of, bytes: keptBytes, state: represents ? "representing" : "waiting" });
  }

  /**
   * Returns whether an object without room represents those that are left out; undefined if it is left out itself.
   *
   * @param before undefined for a new object.
   */
  #represents(kind: string, namespace: string, before: Usage | undefined): boolean | undefined {
    const place = placeKey({ kind, namespace });
    const isAmongMany = before === undefined && this.#waiting.of(place) >= this.#maxWaiting() - 1;
    if (isAmongMany && this.#representing.of(place) > 0) {
      this.room.leaveOut(kind, namespace);
      return undefined;
    }
    return isAmongMany || before?.state === "representing";
  }

  /** Returns the maximum of objects without room of one place that are kept: fewer where these are many. */
  #maxWaiting(): number {
    return Math.max(1, Math.min(maxWaiting, Math.floor(maxWaitingOfAll / this.#waiting.size)));
  }

  /** Leaves objects of a namespace out, the last ones first, until those that are kept take at most `maxBytes`. */
  #cut(namespace: string, maxBytes: number): void {
    const isTooMuch = () => this.room.usedBy(namespace) > maxBytes;
    this.#order.leaveOutLast(namespace, isTooMuch, (version) => {
      const usage = usages.get(version);
      if (usage !== undefined) this.#replace(usage.kind, usage.key, this.#withoutRoom(version, usage));
    });
  }

  /** Returns a version that has lost its room; undefined if it is left out. Its last valid version goes as well. */
  #withoutRoom(version: CachedResource, usage: Usage): CachedResource | undefined {
    const { kind, namespace, bytes } = usage;
    this.room.reject(kind, namespace, bytes);
    const represents =
      usage.state === "read" ? this.#represents(kind, namespace, undefined) : usage.state === "representing";
    if (represents === undefined) {
      this.release(version);
      return undefined;
    }
    const read = cacheResource(withReferences(objectOf(version), !represents), undefined, {
      keepsStatus: true,
      errors: [this.#noRoomOfAll(namespace)],
    });
    return this.#keep(read, version, { ...usage, bytes: 0, state: represents ? "representing" : "waiting" });
  }

  /** Keeps nothing but hashes of statuses of a namespace, of the last objects first, until they take `maxBytes`. */
  #cutStatuses(namespace: string, maxBytes: number): void {
    const isTooMuch = () => this.#statusRoom.usedBy(namespace) > maxBytes;
    this.#statusOrder.leaveOutLast(namespace, isTooMuch, (version) => {
      const usage = usages.get(version);
      if (usage === undefined) return;
      const kept = this.#keep(withLongStatus(version), version, { ...usage, statusBytes: 0 });
      this.#replace(usage.kind, usage.key, kept);
    });
  }

  /** An object is not kept any more. */
  release(removed: CachedResource): void {
    const usage = usages.get(removed);
    if (usage === undefined) return;
    this.#keepSubstitute(removed, undefined);
    this.#order.replace(usage.namespace, removed, undefined);
    this.#statusOrder.replace(usage.namespace, removed, undefined);
    this.#count(usage, undefined);
  }

  /**
   * The objects of a kind are listed, or those of a namespace. Returns whether there are fewer `substitutes` now, since
   * nothing is left out.
   */
  listed(kind: string, namespace?: string): boolean {
    const done = [...this.#substitutes].filter(
      ([, substitute]) =>
        substitute.kind === kind &&
        (namespace ?? substitute.namespace) === substitute.namespace &&
        !this.room.leavesOut(kind, substitute.namespace),
    );
    for (const [key] of done) this.#substitutes.delete(key);
    return done.length > 0;
  }

  /**
   * Returns versions that are removed, or that have room, and that stay in force for the objects of a restricting kind
   * that are left out: another one represents these after the next list.
   */
  substitutes(kind: string): readonly CachedResource[] {
    if (this.#substitutes.size === 0) return [];
    return [...this.#substitutes.values()].flatMap((substitute) =>
      substitute.kind === kind ? substitute.version : [],
    );
  }

  /** The places with objects without room, as `placeKey`. */
  incomplete(): readonly string[] {
    const waiting = [...this.#waiting.keys()].filter((place) => this.#group.kinds.includes(kindOfPlace(place)));
    return [...waiting, ...Array.from(this.room.leftOut(), placeKey)];
  }

  #withinStatusRoom(object: KubeObject, namespace: string, before: Usage | undefined) {
    const { status } = object;
    if (!this.#keepsStatus || status === undefined) return { object, statusBytes: 0 };
    const statusBytes = bytesIn(status, statusSizes);
    if (this.#statusRoom.has(namespace, statusBytes, before?.statusBytes)) return { object, statusBytes };
    return { object: { ...object, status: longStatusOf(status) }, statusBytes: 0 };
  }

  #keep(read: CachedResource, before: CachedResource | undefined, usage: Usage): CachedResource {
    this.#keepSubstitute(before, usage);
    const usageBefore = before && usages.get(before);
    usages.set(read, usage);
    this.#order.replace(usage.namespace, before, usage.bytes > 0 ? read : undefined);
    this.#statusOrder.replace(usage.namespace, before, usage.statusBytes > 0 ? read : undefined);
    this.#count(usageBefore, usage);
    return read;
  }

  #keepSubstitute(before: CachedResource | undefined, after: Usage | undefined): void {
    if (after?.state === "representing") this.#substitutes.delete(placeKey(after));
    const usage = before && usages.get(before);
    if (usage?.state !== "representing" || after?.state === "representing") return;
    const { kind, namespace } = usage;
    const isWanted = this.#group.isRestricting === true && this.room.leavesOut(kind, namespace);
    if (!isWanted || before?.resource === undefined) return;
    this.#substitutes.set(placeKey(usage), { kind, namespace, version: substituteOf(before.resource) });
  }

  #count(before: Usage | undefined, after: Usage | undefined): void {
    const namespace = (after ?? before)?.namespace ?? "";
    this.#countWaiting(before, -1);
    this.#countWaiting(after, 1);
    this.room.count(namespace, (after?.bytes ?? 0) - (before?.bytes ?? 0));
    this.#statusRoom.count(namespace, (after?.statusBytes ?? 0) - (before?.statusBytes ?? 0));
    const hasLeft = isWithoutRoom(before) && after === undefined;
    // Another one is to represent those that are left out.
    const representsNoMore = before?.state === "representing" && after?.state !== "representing";
    if (hasLeft || representsNoMore) this.room.freed(namespace);
  }

  #countWaiting(usage: Usage | undefined, by: number): void {
    if (usage === undefined || usage.state === "read") return;
    this.#waiting.add(placeKey(usage), by);
    if (usage.state === "representing") this.#representing.add(placeKey(usage), by);
  }

  #noRoom(namespace: string): FieldError {
    const mebibytes = (this.maxBytes / 2 ** 20).toFixed(0);
    const { words, share } = this.#group;
    const together = this.#group.isRestricting === true ? "" : ", or those of several kinds take too much together";
    const bound = `${mebibytes} MiB of memory, 1/${1 / share} of the heap${together}`;
    const message = `is not read: the ${words} of namespace ${namespace} take more than ${bound}; it is read when others are removed`;
    return { path: [], message, isUnknownField: false };
  }

  #noRoomOfAll(namespace: string): FieldError {
    const mebibytes = ((this.#total?.maxBytes ?? 0) / 2 ** 20).toFixed(0);
    const bound = `${mebibytes} MiB of memory, a quarter of the heap`;
    const message = `is not read: the objects of all namespaces take more than ${bound}, and namespace ${namespace} has more of them than others; it is read when some are removed`;
    return { path: [], message, isUnknownField: false };
  }
}

/** Returns the object of a version, as far as it is kept. */
function objectOf({ resource, rejected }: CachedResource): KubeObject {
  if (rejected === undefined) return { ...resource };
  const { spec, ...object } = rejected.object;
  return {
    ...object,
    spec: { ...fieldsOf(resource === undefined ? {} : fieldsOf({ ...resource })["spec"]), ...fieldsOf(spec) },
  };
}

/** Returns a version of whose status nothing but a hash is kept. */
function withLongStatus(version: CachedResource): CachedResource {
  const { resource, rejected } = version;
  return {
    ...version,
    resource: resource && withLongStatusIn(resource),
    rejected: rejected && { ...rejected, object: withLongStatusIn(rejected.object) },
  };
}

function withLongStatusIn<Part extends object>(part: Part): Part {
  const { status } = part as { readonly status?: unknown };
  return status === undefined ? part : { ...part, status: longStatusOf(status) };
}

/** Returns a version whose name no object has. */
function substituteOf(resource: Resource): CachedResource {
  const { metadata } = resource;
  // The compiler does not relate a kind to its metadata.
  const renamed = { ...resource, metadata: { ...metadata, name: `${metadata.name}:removed` } } as Resource;
  return { resource: renamed, rejected: undefined, unknownFields: [] };
}

/** Returns the key of a place, such as `Service infra`. */
export function placeKey({ kind, namespace }: Place): string {
  return `${kind} ${namespace}`;
}

function kindOfPlace(place: string): string {
  return place.slice(0, place.indexOf(" "));
}

/** Returns what the status of an object without room needs, and what is left of one without a valid version. */
function withReferences(object: KubeObject, hasTargets: boolean): KubeObject {
  const { parentRefs, targetRefs, parentRef, gatewayClassName } = fieldsOf(object["spec"]);
  const spec = {
    ...(parentRefs !== undefined && { parentRefs: objectsOf(parentRefs).slice(0, maxParents) }),
    ...(targetRefs !== undefined && hasTargets && { targetRefs: objectsOf(targetRefs).slice(0, maxTargets) }),
    // Its authentication is not read, and would be missing.
    ...(object["kind"] === "ProxyPolicy" && { traffic: { authentication: {} } }),
    ...{ parentRef, gatewayClassName },
  };
  return { ...object, spec };
}

/** Returns about what the content of an object takes. */
function contentBytes({ kind, spec, endpoints, ports }: KubeObject): number {
  return kind === "EndpointSlice" ? sliceBytes(endpoints, ports) : bytesIn(spec, contentSizes);
}

/** A slice is kept as its schema reads it, which takes less than the object. */
function sliceBytes(endpoints: unknown, ports: unknown): number {
  let bytes = 0;
  for (const { addresses, targetRef } of objectsOf(endpoints)) {
    const host = Array.isArray(addresses) ? textOf(addresses[0]).length : 0;
    const name = textOf(fieldsOf(targetRef)["name"]).length;
    bytes += endpointBytes + host + (name <= maxNameLength ? name : 0);
  }
  for (const { name } of objectsOf(ports).slice(0, maxServicePorts)) bytes += portBytes + textOf(name).length;
  return bytes;
}
