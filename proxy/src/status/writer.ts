/**
 * Writes statuses that differ from those in the API server. Fields that only this controller writes are written by
 * server-side apply, which keeps the conditions of other writers. Lists with entries of several controllers (`parents`,
 * `ancestors`) are atomic to server-side apply. There the writer reads the newest list, replaces its own entries, and
 * writes the list with the resource version that it read. On a conflict it reads again.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { changeBetween } from "@gatewayproxy/runtime/lists";
import type { Logger } from "@gatewayproxy/runtime/log";
import { runInSlices, type Steps } from "@gatewayproxy/runtime/steps";
import { type RouteKind, routeKinds, streamRouteKinds } from "@gatewayproxy/runtime/route-key";
import { controllerName, gatewayGroup, proxyGroup } from "../api/names.ts";
import { renderKey } from "../api/resource.ts";
import { routeLists } from "../api/status.ts";
import { type KubeApi, resourcePath, type ResourceType } from "../kube/api.ts";
import { ApiFailure } from "../kube/api-failure.ts";
import { fieldsOf, type KubeObject } from "../kube/object.ts";
import { UnfinishedWrites } from "../kube/unfinished-writes.ts";
import { inParallel, maxPassMs, Turns } from "../kube/write-order.ts";
import type { ClusterStatuses } from "./cluster-statuses.ts";
import { desiredOwnStatus, type OwnStatus, policyAncestors, routeParents, type SharedList } from "./desired-status.ts";
import { DueRoutes } from "./due-routes.ts";
import { noStatus, policyEntries, entriesOfRoute, sharedPatch, type SharedStatus } from "./shared-status.ts";
import { type ObjectName, type CurrentObject, WrittenStatuses } from "./written-statuses.ts";

/** Collaborators of a `StatusWriter`. */
export interface StatusWriterOptions {
  /** Reads and writes statuses. */
  readonly api: Pick<KubeApi, "get" | "apply" | "merge">;
  /** Bounds the time of a pass. */
  readonly clock: Clock;
  /** Receives failed writes. */
  readonly log: Logger;
  /** Called before each write, because a process that is not the leader any more must stop writing. */
  readonly isLeader: () => boolean;
  /** Called for each object whose status was written or could not be written. */
  readonly onWritten?: (outcome: "written" | "failed") => void;
  /** Called if a pass ends before all statuses are written; the next pass writes the rest. */
  readonly onBehind?: () => void;
  /** Returns the fields of a status that the definition of its kind declares; absent: all fields are declared. */
  readonly declared?: (kind: keyof typeof types, status: KubeObject) => KubeObject;
  /** The maximum time of the pass in progress, called before each write; absent: `maxPassMs`. */
  readonly passMs?: () => number;
  /** Returns the part of a status that is compared, as the source reports it. Default: the whole status. */
  readonly keptOf?: (status: unknown) => unknown;
}

/** Objects in a step whose status is known to be up to date. */
const knownPerStep = 64;

/** The maximum number of attempts of one write if other writers cause conflicts. */
const maxAttempts = 5;

/** The condition types that this controller writes, including those that are absent at the moment. */
const ownedTypes = {
  GatewayClass: ["Accepted", "SupportedVersion"],
  Gateway: ["Accepted", "Programmed", "ResolvedRefs", "InsecureFrontendValidationMode"],
  ListenerSet: ["Accepted", "Programmed"],
  Backend: ["Accepted"],
} as const;

const gatewayApi = (plural: string): ResourceType => ({ apiVersion: `${gatewayGroup}/v1`, plural });

/**
 * The kinds that a cluster may serve in an earlier version only. The status is written in the version of the object.
 */
const versionedKinds: readonly string[] = streamRouteKinds;

const types = {
  GatewayClass: gatewayApi("gatewayclasses"),
  Gateway: gatewayApi("gateways"),
  ListenerSet: gatewayApi("listenersets"),
  HTTPRoute: gatewayApi("httproutes"),
  GRPCRoute: gatewayApi("grpcroutes"),
  TLSRoute: gatewayApi("tlsroutes"),
  TCPRoute: gatewayApi("tcproutes"),
  UDPRoute: gatewayApi("udproutes"),
  BackendTLSPolicy: gatewayApi("backendtlspolicies"),
  ProxyPolicy: { apiVersion: `${proxyGroup}/v1alpha1`, plural: "proxypolicies" },
  Backend: { apiVersion: `${proxyGroup}/v1alpha1`, plural: "backends" },
};

// Object.keys loses the literal types of the table above.
const typeNames = Object.keys(types) as readonly (keyof typeof types)[];

/** Every object that has, or may have, a status of this controller. */
export type CurrentObjects = Readonly<Record<keyof typeof types, readonly CurrentObject[]>>;

/** Writes the statuses of all objects. */
export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #written: WrittenStatuses;
  readonly #routes: Readonly<Record<RouteKind, DueRoutes>> = {
    HTTPRoute: new DueRoutes(),
    GRPCRoute: new DueRoutes(),
    TLSRoute: new DueRoutes(),
    TCPRoute: new DueRoutes(),
    UDPRoute: new DueRoutes(),
  };
  /** Uids of orphans whose conditions of this controller are removed, by key. */
  readonly #withdrawn = new Map<string, string | undefined>();
  /** Objects whose status this process has compared as its own, by key. */
  readonly #owned = new Set<string>();
  /**
   * The status that an object was found to have, for objects with entries only: which fields are written depends on the
   * definition of the kind.
   */
  readonly #upToDate = new WeakMap<CurrentObject, SharedStatus>();
  /** The objects of the last pass. */
  #known: CurrentObjects | undefined;
  /** Objects whose last write failed. The log reports the first failure only. */
  readonly #failing = new Set<string>();
  readonly #unfinished: UnfinishedWrites;
  /** Of objects whose last write succeeded, and of others. */
  readonly #turns = { first: new Turns(), last: new Turns() };

  constructor(options: StatusWriterOptions) {
    const { clock, onBehind, keptOf = (status) => status } = options;
    this.#options = options;
    this.#unfinished = new UnfinishedWrites({ clock, onWritten: () => onBehind?.() });
    this.#written = new WrittenStatuses(clock, keptOf);
  }

  /**
   * Writes each status that differs from the current one, in turns between namespaces. Never rejects.
   *
   * @returns false if a status was not written and should be tried again.
   */
  async write(statuses: ClusterStatuses, current: CurrentObjects): Promise<boolean> {
    const tasks = await runInSlices(this.#tasks(statuses, current));
    this.#retain(current);
    const { isLeader, clock, onBehind, passMs = () => maxPassMs } = this.#options;
    const startMs = clock.monotonicMs();
    const hasTime = () => clock.monotonicMs() - startMs < passMs();
    // Objects that failed before come last, so that they do not delay the others.
    const { first, last } = this.#turns;
    const ordered = [first, last].flatMap((turns) => {
      const own = tasks.filter(({ key }) => this.#failing.has(key) === (turns === last));
      const byNamespace = Map.groupBy(own, ({ namespace }) => namespace);
      return turns.order(byNamespace).map((task) => ({ ...task, turns }));
    });
    const { log } = this.#options;
    log.debug(
      { due: tasks.length, failing: this.#failing.size },
      tasks.length === 0 ? "all statuses are up to date" : "statuses to write",
    );
    const outcomes: boolean[] = [];
    await inParallel(
      ordered,
      async ({ run, turns, ...object }) => {
        turns.start(object.namespace);
        outcomes.push((await this.#unfinished.run(object, run)) === true);
      },
      () => isLeader() && hasTime(),
    );
    if (outcomes.length < ordered.length && isLeader()) onBehind?.();
    return isLeader() && outcomes.every(Boolean);
  }

  /** Resolves when the writes for which no pass waits have ended. */
  async writesEnded(): Promise<void> {
    await this.#unfinished.ended();
  }

  /** Compares all objects and returns the writes that are due. In steps, because thousands of comparisons take long. */
  *#tasks(statuses: ClusterStatuses, current: CurrentObjects): Steps<readonly Task[]> {
    const tasks: Task[] = [];
    const { backendTlsPolicies, proxyPolicies, orphans, foreign } = statuses;
    const comparisons = [
      ...this.#ownTasks(statuses, current),
      ...this.#withdrawals("Gateway", orphans.Gateway, current.Gateway),
      ...this.#withdrawals("ListenerSet", orphans.ListenerSet, current.ListenerSet),
      ...this.#withdrawals("Gateway", this.#released("Gateway", foreign.Gateway), current.Gateway),
      ...this.#withdrawals("ListenerSet", this.#released("ListenerSet", foreign.ListenerSet), current.ListenerSet),
    ];
    for (const compare of comparisons) {
      tasks.push(...compare());
      yield;
    }
    for (const kind of routeKinds) {
      const routes = this.#routes[kind];
      const due = routes.of(current[kind], statuses[routeLists[kind]]);
      const statusOf = (route: CurrentObject): SharedStatus => {
        const status = routes.statusOf(route);
        return status === undefined ? noStatus : entriesOfRoute(status);
      };
      tasks.push(...(yield* this.#sharedTasksOf(kind, routeParents, due, statusOf)));
      routes.settle(due.filter((route) => this.#upToDate.get(route) !== statusOf(route)));
    }
    for (const [kind, policies] of [
      ["BackendTLSPolicy", backendTlsPolicies],
      ["ProxyPolicy", proxyPolicies],
    ] as const) {
      const entries = policyEntries(policies);
      const statusOf = ({ metadata }: CurrentObject) => entries.get(objectKey(metadata)) ?? noStatus;
      tasks.push(...(yield* this.#sharedTasksOf(kind, policyAncestors, current[kind], statusOf)));
    }
    return tasks;
  }

  *#sharedTasksOf(
    kind: RouteKind | "BackendTLSPolicy" | "ProxyPolicy",
    list: SharedList,
    objects: readonly CurrentObject[],
    statusOf: (object: CurrentObject) => SharedStatus,
  ): Steps<readonly Task[]> {
    const tasks: Task[] = [];
    const now = this.#now();
    for (const [at, resource] of objects.entries()) {
      // Without one, an entry of this controller is removed.
      const status = statusOf(resource);
      // Most statuses have not changed since the last pass.
      const isKnown = this.#upToDate.get(resource) === status;
      if (!isKnown) tasks.push(...this.#sharedTasks(kind, list, resource, status, now));
      if (!isKnown || at % knownPerStep === 0) yield;
    }
    return tasks;
  }

  #ownTasks(statuses: ClusterStatuses, current: CurrentObjects): readonly Comparison[] {
    const { gatewayClasses, gateways, listenerSets, backends } = statuses;
    const find = {
      ...{ GatewayClass: indexed(current.GatewayClass), Gateway: indexed(current.Gateway) },
      ...{ ListenerSet: indexed(current.ListenerSet), Backend: indexed(current.Backend) },
    };
    const own = (kind: keyof typeof find, object: ObjectName, status: OwnStatus) => () =>
      this.#ownTask(kind, find[kind].get(objectKey(object)), object, status);
    return [
      ...gatewayClasses.map(({ name, conditions, supportedFeatures }) =>
        own("GatewayClass", { name }, { conditions, fields: { supportedFeatures } }),
      ),
      ...gateways.map(({ namespace, name, conditions, listeners, addresses, attachedListenerSets }) => {
        const fields = { addresses, ...(attachedListenerSets !== undefined && { attachedListenerSets }) };
        const status = { conditions, listeners: listeners.map((each) => ({ ...each })), fields };
        return own("Gateway", { namespace, name }, status);
      }),
      ...listenerSets.map(({ namespace, name, conditions, listeners }) => {
        const status = { conditions, listeners: listeners.map((each) => ({ ...each })), fields: {} };
        return own("ListenerSet", { namespace, name }, status);
      }),
      ...backends.map(({ namespace, name, conditions }) =>
        own("Backend", { namespace, name }, { conditions, fields: {} }),
      ),
    ];
  }

  #ownTask(
    kind: keyof typeof ownedTypes,
    resource: CurrentObject | undefined,
    object: ObjectName,
    status: OwnStatus,
  ): readonly Task[] {
    const key = renderKey(kind, object.namespace, object.name);
    if (resource === undefined) return [];
    this.#withdrawn.delete(key);
    this.#owned.add(key);
    return this.#contained(key, () => {
      if (this.#written.isConfirmed(key, resource, status)) return [];
      const desired = desiredOwnStatus(
        this.#declared(kind, status),
        this.#written.currentStatus(key, resource),
        ownedTypes[kind],
        this.#now(),
      );
      this.#options.log.trace({ resource: key, isUpToDate: desired === undefined }, "status compared");
      if (desired === undefined) return [];
      return [this.#task(key, resource, status, () => this.#apply(kind, object, desired))];
    });
  }

  /** Reduces a status to declared fields. Conditions are declared by every version of a definition. */
  #declared(kind: keyof typeof ownedTypes, { conditions, listeners, fields }: OwnStatus): OwnStatus {
    const declared = (part: KubeObject): KubeObject => this.#options.declared?.(kind, part) ?? part;
    return {
      conditions,
      fields: declared(fields),
      ...(listeners !== undefined && {
        // The reduced listeners have a name and conditions, which each version declares.
        listeners: declared({ listeners })["listeners"] as NonNullable<OwnStatus["listeners"]>,
      }),
    };
  }

  /** Returns the tasks of `make`. If a status cannot be compared, logs the error and returns a failing task instead. */
  #contained(key: string, make: () => readonly Task[]): readonly Task[] {
    try {
      return make();
    } catch (error) {
      this.#fail(key, "notCompared", error);
      return [{ key, namespace: "", run: () => Promise.resolve(false) }];
    }
  }

  /**
   * Applies the fields of this controller; fields that it applied before and not now are removed.
   *
   * @returns the status after the write.
   */
  async #apply(kind: keyof typeof ownedTypes, { namespace, name }: ObjectName, status: object): Promise<unknown> {
    const { apiVersion } = types[kind];
    const metadata = { name, ...(namespace !== undefined && { namespace }) };
    const path = `${resourcePath(types[kind], namespace, name)}/status`;
    const body = { apiVersion, kind, metadata, status };
    return (await this.#options.api.apply(path, body, { fieldManager: controllerName }))["status"];
  }

  /** Returns the objects of another controller that were this controller's while this process runs. */
  #released(kind: "Gateway" | "ListenerSet", objects: readonly ObjectName[]): readonly ObjectName[] {
    return objects.filter(({ namespace, name }) => this.#owned.has(renderKey(kind, namespace, name)));
  }

  /**
   * Removes the fields of this controller from statuses, once for each object, because the fields of other writers
   * stay.
   */
  #withdrawals(
    kind: "Gateway" | "ListenerSet",
    objects: readonly ObjectName[],
    resources: readonly CurrentObject[],
  ): readonly Comparison[] {
    const current = indexed(resources);
    return objects.map((object) => () => {
      const key = renderKey(kind, object.namespace, object.name);
      const resource = current.get(objectKey(object));
      if (resource === undefined || this.#withdrawn.get(key) === resource.metadata.uid) return [];
      return [
        this.#task(key, resource, {}, async () => {
          const status = await this.#apply(kind, object, {});
          this.#withdrawn.set(key, resource.metadata.uid);
          return status;
        }),
      ];
    });
  }

  #sharedTasks(
    kind: RouteKind | "BackendTLSPolicy" | "ProxyPolicy",
    list: SharedList,
    resource: CurrentObject,
    desired: SharedStatus,
    now: string,
  ): readonly Task[] {
    const { metadata } = resource;
    const key = renderKey(kind, metadata.namespace, metadata.name);
    const { entries: own, fields: all } = desired;
    const status = this.#written.currentStatus(key, resource);
    const fields = this.#options.declared?.(kind, all) ?? all;
    this.#upToDate.delete(resource);
    return this.#contained(key, () => {
      const isConfirmed = this.#written.isConfirmed(key, resource, { own, fields });
      if (isConfirmed || sharedPatch(own, fields, status, list, now) === undefined) {
        if (Object.keys(all).length === 0) this.#upToDate.set(resource, desired);
        return [];
      }
      const type =
        resource.apiVersion !== undefined && versionedKinds.includes(kind)
          ? { ...types[kind], apiVersion: resource.apiVersion }
          : types[kind];
      const path = resourcePath(type, metadata.namespace, metadata.name);
      return [
        this.#task(key, resource, { own, fields }, () =>
          this.#replaceEntries(path, (current) => sharedPatch(own, fields, current, list, this.#now())),
        ),
      ];
    });
  }

  /**
   * Reads the newest status and writes the patch that `patchOf` computes from it.
   *
   * @returns the status after the write.
   */
  async #replaceEntries(path: string, patchOf: (current: unknown) => object | undefined): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      const object = await this.#options.api.get(path);
      const patch = patchOf(object?.["status"]);
      if (object === undefined || patch === undefined) return object?.["status"];
      const { resourceVersion } = fieldsOf(object["metadata"]);
      try {
        const body = { metadata: { resourceVersion }, status: patch };
        return (await this.#options.api.merge(`${path}/status`, body))["status"];
      } catch (error) {
        if (!(error instanceof ApiFailure) || error.status !== 409 || attempt === maxAttempts) throw error;
        this.#options.log.debug(
          { path, attempt },
          "conflict with another writer; the status is read and written again",
        );
      }
    }
  }

  /** Drops the state of deleted objects. */
  #retain(current: CurrentObjects): void {
    const before = this.#known;
    this.#known = current;
    const states = [this.#written, this.#failing, this.#withdrawn, this.#owned];
    const changes = typeNames.map((kind) => [kind, before && changeBetween(before[kind], current[kind])] as const);
    const removed = changes.flatMap(([kind, change]) => change?.removed.map((object) => keyOf(kind, object)) ?? []);
    const isSmall = changes.every(([, change]) => change !== undefined);
    const kept = new Set(
      changes.flatMap(([kind, change]) =>
        (isSmall ? (change?.added ?? []) : current[kind]).map((object) => keyOf(kind, object)),
      ),
    );
    for (const state of states) {
      for (const key of isSmall ? removed : state.keys()) if (!kept.has(key)) state.delete(key);
    }
  }

  /**
   * Builds the write of one status.
   *
   * @param own the part of the status that this controller writes.
   * @param write resolves with the status after the write.
   */
  #task(key: string, object: CurrentObject, own: unknown, write: () => Promise<unknown>): Task {
    const { onWritten } = this.#options;
    const run = async () => {
      if (!this.#written.mayWrite(key, object, own)) {
        this.#fail(key, "repeatedlyReverted");
        return false;
      }
      try {
        this.#written.add(key, object, own, await write());
        this.#options.log.debug({ resource: key }, "status written");
        this.#failing.delete(key);
        onWritten?.("written");
        return true;
      } catch (error) {
        // The object was deleted together with its status.
        if (error instanceof ApiFailure && error.status === 404) {
          this.#options.log.debug({ resource: key }, "status not written, since the object was deleted");
          return true;
        }
        this.#fail(key, "notWritten", error);
        onWritten?.("failed");
        return false;
      }
    };
    return { key, namespace: object.metadata.namespace ?? "", run };
  }

  /** Logs the first failure since the last success. */
  #fail(key: string, failure: keyof typeof failurePhrases, error?: unknown): void {
    if (!this.#failing.has(key)) {
      const fields = { resource: key, ...(error !== undefined && { err: error }) };
      this.#options.log.warn(fields, failurePhrases[failure]);
    }
    this.#failing.add(key);
  }

  /** Returns the time in whole seconds, in the format of `metav1.Time`. */
  #now(): string {
    return new Date(this.#options.clock.nowMs()).toISOString().replace(/\.\d+Z$/, "Z");
  }
}

const failurePhrases = {
  notCompared: "cannot compare the current status; trying again",
  notWritten: "cannot write the status; trying again",
  repeatedlyReverted: "another writer keeps changing the status back; it is not written again for up to a minute",
} as const;

/** A write that is due. */
interface Task {
  readonly key: string;
  readonly namespace: string;
  readonly run: () => Promise<boolean>;
}

/** Compares one object and returns its write, if one is due. */
type Comparison = () => readonly Task[];

function keyOf(kind: string, { metadata }: CurrentObject): string {
  return renderKey(kind, metadata.namespace, metadata.name);
}

function indexed(objects: readonly CurrentObject[]): ReadonlyMap<string, CurrentObject> {
  return new Map(objects.map((object) => [objectKey(object.metadata), object]));
}
