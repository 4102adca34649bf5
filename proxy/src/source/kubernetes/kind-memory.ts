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
import { maxServicePorts } from "../../api/service.ts";
import { longStatusOf } from "../../kube/long-status.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../../kube/object.ts";
import { bytesIn } from "../../kube/object-bytes.ts";
import type { CachedResource } from "./cached-resource.ts";

/** Kinds whose objects share a bound in each namespace. */
interface Group {
  readonly kinds: readonly string[];
  /** The part of the heap that they may take, by the estimates below. */
  readonly share: number;
  /** What each takes beside its content, in bytes. */
  readonly objectBytes: number;
  readonly words: string;
}

const groups = {
  routes: { kinds: routeKinds, share: 1 / 8, objectBytes: 2_048, words: "routes" },
  gateways: {
    ...{ kinds: ["Gateway", "ListenerSet"], share: 1 / 16, objectBytes: 8_192 },
    words: "Gateways and ListenerSets",
  },
  backends: { kinds: ["Backend"], share: 1 / 16, objectBytes: 4_096, words: "Backends" },
  policies: { kinds: ["ProxyPolicy"], share: 1 / 16, objectBytes: 4_096, words: "ProxyPolicies" },
  tlsPolicies: { kinds: ["BackendTLSPolicy"], share: 1 / 32, objectBytes: 2_048, words: "BackendTLSPolicies" },
  grants: { kinds: ["ReferenceGrant"], share: 1 / 32, objectBytes: 1_024, words: "ReferenceGrants" },
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

/** The objects of a kind in a namespace. */
interface Place {
  readonly kind: string;
  readonly namespace: string;
}

/** The objects of a group of kinds in all namespaces. */
export class KindMemory {
  readonly #group: Group;
  /** The maximum of the estimated bytes of one namespace. */
  readonly maxBytes: number;
  /** In bytes, by namespace. */
  readonly #used = new Map<string, number>();
  readonly #usedByStatuses = new Map<string, number>();
  readonly #keepsStatus: boolean;
  /** Objects without room that are kept. */
  readonly #waiting = new CountedPlaces();
  /** Those of them that represent others. */
  readonly #representing = new CountedPlaces();
  /** The namespaces with further objects without room, which are not kept; by kind. */
  readonly #leftOut = new Map<string, Set<string>>();
  /** Namespaces in which objects were removed or became smaller while others wait for room. */
  readonly #freed = new Set<string>();

  /**
   * @param options.maxBytes of a namespace, for tests.
   * @param options.keepsStatus whether statuses are kept. Who may write them may write any text. Default: false.
   */
  constructor(
    of: BoundedGroup,
    options: { readonly maxBytes?: number | undefined; readonly keepsStatus?: boolean } = {},
  ) {
    const { maxBytes, keepsStatus = false } = options;
    this.#group = groups[of];
    this.#keepsStatus = keepsStatus;
    this.maxBytes = maxBytes ?? Math.floor(getHeapStatistics().heap_size_limit * this.#group.share);
  }

  /**
   * Returns an object as it is parsed, or rejected if its namespace has no room for it. Returns undefined for a new
   * object if many others without room are kept, of which one represents it. If the statuses of its namespace take half
   * as much as its objects may, nothing but a hash of a further one is kept: a status must not decide whether an object
   * is rejected, which changes its status.
   *
   * @param before the previous version, which this one replaces.
   * @param parse gets the errors with which the object is rejected.
   */
  read(
    whole: KubeObject,
    before: CachedResource | undefined,
    parse: (object: KubeObject, errors: readonly FieldError[]) => CachedResource,
  ): CachedResource | undefined {
    const kind = textOf(whole["kind"]);
    const namespace = textOf(fieldsOf(whole["metadata"])["namespace"]);
    const usageBefore = before && usages.get(before);
    const { object, statusBytes } = this.#withinStatusRoom(whole, namespace, usageBefore);
    const bytes = this.#group.objectBytes + contentBytes(object);
    const usedByOthers = (this.#used.get(namespace) ?? 0) - (usageBefore?.bytes ?? 0);
    if (usedByOthers + bytes <= this.maxBytes) {
      return this.#keep(parse(object, []), usageBefore, { kind, namespace, bytes, statusBytes, state: "read" });
    }
    const isAmongMany = before === undefined && this.#waiting.of(kind, namespace) >= maxWaiting - 1;
    if (isAmongMany && this.#representing.of(kind, namespace) > 0) {
      const namespaces = this.#leftOut.get(kind) ?? new Set();
      this.#leftOut.set(kind, namespaces.add(namespace));
      return undefined;
    }
    const represents = isAmongMany || usageBefore?.state === "representing";
    const read = parse(withReferences(object, !represents), [this.#noRoom(namespace)]);
    // The last valid version may stay in force.
    const keptBytes = read.rejected?.inForce === "lastValidVersion" ? (usageBefore?.bytes ?? 0) : 0;
    const state = represents ? "representing" : "waiting";
    return this.#keep(read, usageBefore, { kind, namespace, bytes: keptBytes, statusBytes, state });
  }

  /** An object is not kept any more. */
  release(removed: CachedResource): void {
    const usage = usages.get(removed);
    if (usage !== undefined) this.#count(usage, undefined);
  }

  /** A list of all objects of a kind begins, or of those in a namespace. It finds those that are left out. */
  beginList(kind: string, namespace?: string): void {
    if (namespace === undefined) this.#leftOut.delete(kind);
    else this.#leftOut.get(kind)?.delete(namespace);
  }

  /** Whether there may be room now for objects that had none. */
  get hasFreed(): boolean {
    return this.#freed.size > 0;
  }

  /** Returns the places with objects for which there may be room now, which are to be listed again. */
  takeFreed(): readonly Place[] {
    const freed = [...this.#freed];
    this.#freed.clear();
    const places = this.#group.kinds.flatMap((kind) => freed.map((namespace) => ({ kind, namespace })));
    return places.filter(({ kind, namespace }) => this.#waits(kind, namespace));
  }

  #withinStatusRoom(object: KubeObject, namespace: string, before: Usage | undefined) {
    const { status } = object;
    if (!this.#keepsStatus || status === undefined) return { object, statusBytes: 0 };
    const statusBytes = bytesIn(status, contentSizes);
    const usedByOthers = (this.#usedByStatuses.get(namespace) ?? 0) - (before?.statusBytes ?? 0);
    if (usedByOthers + statusBytes <= this.maxBytes / 2) return { object, statusBytes };
    return { object: { ...object, status: longStatusOf(status) }, statusBytes: 0 };
  }

  #keep(read: CachedResource, before: Usage | undefined, usage: Usage): CachedResource {
    usages.set(read, usage);
    this.#count(before, usage);
    return read;
  }

  #count(before: Usage | undefined, after: Usage | undefined): void {
    const namespace = (after ?? before)?.namespace ?? "";
    const change = (after?.bytes ?? 0) - (before?.bytes ?? 0);
    addTo(this.#used, namespace, change);
    addTo(this.#usedByStatuses, namespace, (after?.statusBytes ?? 0) - (before?.statusBytes ?? 0));
    this.#countWaiting(before, -1);
    this.#countWaiting(after, 1);
    const hasLeft = isWithoutRoom(before) && after === undefined;
    // Another one is to represent those that are left out.
    const representsNoMore = before?.state === "representing" && after?.state !== "representing";
    if ((change < 0 || hasLeft || representsNoMore) && this.#group.kinds.some((kind) => this.#waits(kind, namespace))) {
      this.#freed.add(namespace);
    }
  }

  #countWaiting(usage: Usage | undefined, by: number): void {
    if (usage === undefined || usage.state === "read") return;
    this.#waiting.add(usage.kind, usage.namespace, by);
    if (usage.state === "representing") this.#representing.add(usage.kind, usage.namespace, by);
  }

  #waits(kind: string, namespace: string): boolean {
    return this.#waiting.of(kind, namespace) > 0 || this.#leftOut.get(kind)?.has(namespace) === true;
  }

  #noRoom(namespace: string): FieldError {
    const mebibytes = (this.maxBytes / 2 ** 20).toFixed(0);
    const { words, share } = this.#group;
    const bound = `${mebibytes} MiB of memory, 1/${1 / share} of the heap`;
    const message = `is not read: the ${words} of namespace ${namespace} take more than ${bound}; it is read when others are removed`;
    return { path: [], message, isUnknownField: false };
  }
}

/** Numbers of objects by kind and namespace. */
class CountedPlaces {
  readonly #counts = new Map<string, number>();

  of(kind: string, namespace: string): number {
    return this.#counts.get(`${kind} ${namespace}`) ?? 0;
  }

  add(kind: string, namespace: string, change: number): void {
    addTo(this.#counts, `${kind} ${namespace}`, change);
  }
}

function addTo(numbers: Map<string, number>, key: string, change: number): void {
  const sum = (numbers.get(key) ?? 0) + change;
  if (sum > 0) numbers.set(key, sum);
  else numbers.delete(key);
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
