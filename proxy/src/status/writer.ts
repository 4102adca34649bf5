/**
 * Writes statuses to the API server, and only those that are not there yet. Fields that are ours alone are written by
 * server-side apply, which leaves other writers' conditions in place. Lists that controllers share (`parents`,
 * `ancestors`) are atomic to server-side apply, so there the newest list is read, our entries are replaced in it, and
 * it is written for the version that was read; whoever was quicker makes us read again.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { inTurns, type Steps } from "@gatewayproxy/runtime/steps";
import { controllerName, gatewayGroup, proxyGroup } from "../api/names.ts";
import { renderKey } from "../api/resource.ts";
import { type KubeApi, resourcePath, type ResourceType } from "../kube/api.ts";
import { ApiFailure } from "../kube/api-failure.ts";
import { fieldsOf } from "../kube/object.ts";
import type { ClusterStatuses } from "./cluster-statuses.ts";
import { desiredOwnStatus, type OwnStatus, policyAncestors, routeParents, type SharedList } from "./desired-status.ts";
import { noStatus, policyEntries, routeEntries, sharedPatch, type SharedStatus } from "./shared-status.ts";
import { type ObjectName, type StandingObject, WrittenStatuses } from "./written-statuses.ts";

export interface StatusWriterOptions {
  readonly api: Pick<KubeApi, "get" | "apply" | "merge">;
  readonly clock: Clock;
  readonly log: Logger;
  /** Asked before each write: who has lost the lead leaves the rest to its successor. */
  readonly isLeader: () => boolean;
  /** Tells each object whose status was written, and each that could not be. */
  readonly onWritten?: (outcome: "written" | "failed") => void;
  /** Called where more is to be written than one pass does: the rest is for the next one. */
  readonly onBehind?: () => void;
  /** Whether something that must not wait for statuses needs the next pass, such as a permission that was withdrawn. */
  readonly isPressed?: () => boolean;
}

/**
 * How long a pass goes on. A tenant can have thousands of objects, and what changes for others meanwhile is not planned
 * before the pass is over.
 */
const passMs = 4_000;

/** The same where the next pass is needed soon. Not at once, so that statuses are written however often that is so. */
const pressedPassMs = 500;

/** Requests under way at once; more would be queued by the API server's fairness anyway. */
const parallel = 8;

/** How often somebody else may be quicker in a row. */
const attempts = 5;

/** Condition types of ours, also those that do not hold at the moment. */
const ownedTypes = {
  GatewayClass: ["Accepted"],
  Gateway: ["Accepted", "Programmed", "ResolvedRefs", "InsecureFrontendValidationMode"],
  ListenerSet: ["Accepted", "Programmed"],
  Backend: ["Accepted"],
} as const;

const gatewayApi = (plural: string): ResourceType => ({ apiVersion: `${gatewayGroup}/v1`, plural });

const types = {
  GatewayClass: gatewayApi("gatewayclasses"),
  Gateway: gatewayApi("gateways"),
  ListenerSet: gatewayApi("listenersets"),
  HTTPRoute: gatewayApi("httproutes"),
  BackendTLSPolicy: gatewayApi("backendtlspolicies"),
  ProxyPolicy: { apiVersion: `${proxyGroup}/v1alpha1`, plural: "proxypolicies" },
  Backend: { apiVersion: `${proxyGroup}/v1alpha1`, plural: "backends" },
};

/** Every object that has a status of ours, or may have one. */
export type StandingObjects = Readonly<Record<keyof typeof types, readonly StandingObject[]>>;

export class StatusWriter {
  readonly #options: StatusWriterOptions;
  readonly #written: WrittenStatuses;
  /** Orphans that have nothing of ours any more: their uids, by key. */
  readonly #withdrawn = new Map<string, string | undefined>();
  /** Objects whose status could not be written when it was last tried: that is told once. */
  readonly #failing = new Set<string>();

  constructor(options: StatusWriterOptions) {
    this.#options = options;
    this.#written = new WrittenStatuses(options.clock);
  }

  /**
   * Writes every status that differs from the one that stands, by turns of their namespaces. Never rejects; false when
   * some could not be written and should be tried again.
   */
  async write(statuses: ClusterStatuses, standing: StandingObjects): Promise<boolean> {
    const tasks = await inTurns(tasksIn(this.#comparisons(statuses, standing)));
    this.#retain(standing);
    const { isLeader, clock, onBehind, isPressed } = this.#options;
    const startMs = clock.monotonicMs();
    const goesOn = () => clock.monotonicMs() - startMs < (isPressed?.() === true ? pressedPassMs : passMs);
    // What has failed before comes last, and cannot keep the others from being written.
    const ordered = [false, true].flatMap((isFailing) =>
      byTurns(tasks.filter(({ key }) => this.#failing.has(key) === isFailing)),
    );
    const { log } = this.#options;
    log.debug(
      { due: tasks.length, failing: this.#failing.size },
      tasks.length === 0 ? "no status is due" : "statuses are due",
    );
    const outcomes = await runParallel(ordered, () => isLeader() && goesOn());
    if (outcomes.length < ordered.length && isLeader()) onBehind?.();
    return isLeader() && outcomes.every(Boolean);
  }

  #comparisons(statuses: ClusterStatuses, standing: StandingObjects): readonly Comparison[] {
    const { backendTlsPolicies, proxyPolicies, orphans } = statuses;
    return [
      ...this.#ownTasks(statuses, standing),
      ...this.#withdrawals("Gateway", orphans.Gateway, standing.Gateway),
      ...this.#withdrawals("ListenerSet", orphans.ListenerSet, standing.ListenerSet),
      ...this.#sharedTasks("HTTPRoute", routeParents, standing.HTTPRoute, routeEntries(statuses)),
      ...this.#sharedTasks(
        "BackendTLSPolicy",
        policyAncestors,
        standing.BackendTLSPolicy,
        policyEntries(backendTlsPolicies),
      ),
      ...this.#sharedTasks("ProxyPolicy", policyAncestors, standing.ProxyPolicy, policyEntries(proxyPolicies)),
    ];
  }

  #ownTasks(statuses: ClusterStatuses, standing: StandingObjects): readonly Comparison[] {
    const { gatewayClasses, gateways, listenerSets, backends } = statuses;
    const find = {
      ...{ GatewayClass: indexed(standing.GatewayClass), Gateway: indexed(standing.Gateway) },
      ...{ ListenerSet: indexed(standing.ListenerSet), Backend: indexed(standing.Backend) },
    };
    const own = (kind: keyof typeof find, object: ObjectName, status: OwnStatus) => () =>
      this.#ownTask(kind, find[kind].get(nameOf(object)), object, status);
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
    resource: StandingObject | undefined,
    object: ObjectName,
    status: OwnStatus,
  ): readonly Task[] {
    const key = renderKey(kind, object.namespace, object.name);
    if (resource === undefined) return [];
    this.#withdrawn.delete(key);
    return this.#contained(key, () => {
      const desired = desiredOwnStatus(status, this.#written.standing(key, resource), ownedTypes[kind], this.#now());
      this.#options.log.trace({ resource: key, isAsWanted: desired === undefined }, "status compared");
      if (desired === undefined) return [];
      return [this.#task(key, resource, status, () => this.#apply(kind, object, desired))];
    });
  }

  /** A status that cannot be compared, as somebody else has written it, keeps no other from being written. */
  #contained(key: string, make: () => readonly Task[]): readonly Task[] {
    try {
      return make();
    } catch (error) {
      this.#fail(key, "unread", error);
      return [{ key, namespace: "", run: () => Promise.resolve(false) }];
    }
  }

  /** Writes our part of a status; what we wrote before and not now goes. Gives the status that stands then. */
  async #apply(kind: keyof typeof ownedTypes, { namespace, name }: ObjectName, status: object): Promise<unknown> {
    const { apiVersion } = types[kind];
    const metadata = { name, ...(namespace !== undefined && { namespace }) };
    const path = `${resourcePath(types[kind], namespace, name)}/status`;
    const body = { apiVersion, kind, metadata, status };
    return (await this.#options.api.apply(path, body, { fieldManager: controllerName }))["status"];
  }

  /** Takes back what is ours of statuses; what is not ours stays, and so each is tried once. */
  #withdrawals(
    kind: "Gateway" | "ListenerSet",
    objects: readonly ObjectName[],
    resources: readonly StandingObject[],
  ): readonly Comparison[] {
    const standing = indexed(resources);
    return objects.map((object) => () => {
      const key = renderKey(kind, object.namespace, object.name);
      const resource = standing.get(nameOf(object));
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

  /** Also for objects that have an entry of ours and should have none any more. */
  #sharedTasks(
    kind: "HTTPRoute" | "BackendTLSPolicy" | "ProxyPolicy",
    list: SharedList,
    resources: readonly StandingObject[],
    entries: ReadonlyMap<string, SharedStatus>,
  ): readonly Comparison[] {
    return resources.map((resource) => () => {
      const { metadata } = resource;
      const key = renderKey(kind, metadata.namespace, metadata.name);
      const { entries: own, fields } = entries.get(`${metadata.namespace ?? ""}/${metadata.name}`) ?? noStatus;
      return this.#contained(key, () => {
        if (sharedPatch(own, fields, this.#written.standing(key, resource), list, this.#now()) === undefined) return [];
        const path = resourcePath(types[kind], metadata.namespace, metadata.name);
        return [
          this.#task(key, resource, { own, fields }, () =>
            this.#replaceOurs(path, (standing) => sharedPatch(own, fields, standing, list, this.#now())),
          ),
        ];
      });
    });
  }

  /** Reads the newest status and writes what `patchOf` makes of it; gives the status that stands then. */
  async #replaceOurs(path: string, patchOf: (standing: unknown) => object | undefined): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      const object = await this.#options.api.get(path);
      const patch = patchOf(object?.["status"]);
      if (object === undefined || patch === undefined) return object?.["status"];
      const { resourceVersion } = fieldsOf(object["metadata"]);
      try {
        const body = { metadata: { resourceVersion }, status: patch };
        return (await this.#options.api.merge(`${path}/status`, body))["status"];
      } catch (error) {
        if (!(error instanceof ApiFailure) || error.status !== 409 || attempt === attempts) throw error;
        this.#options.log.debug({ path, attempt }, "status written again, since another writer was quicker");
      }
    }
  }

  /** Forgets what there was of objects that are gone. */
  #retain(standing: StandingObjects): void {
    const keys = new Set(
      Object.entries(standing).flatMap(([kind, objects]) =>
        objects.map(({ metadata }) => renderKey(kind, metadata.namespace, metadata.name)),
      ),
    );
    this.#written.retain(keys);
    for (const known of [this.#failing, this.#withdrawn]) {
      for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
    }
  }

  /**
   * @param own what is ours of the status to be.
   * @param write gives the status that stands then.
   */
  #task(key: string, object: StandingObject, own: unknown, write: () => Promise<unknown>): Task {
    const { onWritten } = this.#options;
    const run = async () => {
      if (!this.#written.mayWrite(key, object, own)) {
        this.#fail(key, "contested");
        return false;
      }
      try {
        this.#written.add(key, object, own, await write());
        this.#options.log.debug({ resource: key }, "status written");
        this.#failing.delete(key);
        onWritten?.("written");
        return true;
      } catch (error) {
        // The object is gone, and its status with it.
        if (error instanceof ApiFailure && error.status === 404) {
          this.#options.log.debug({ resource: key }, "status not written, since the object is gone");
          return true;
        }
        this.#fail(key, "unwritten", error);
        onWritten?.("failed");
        return false;
      }
    };
    return { key, namespace: object.metadata.namespace ?? "", run };
  }

  /** Tells it once until it succeeds. */
  #fail(key: string, failure: keyof typeof failurePhrases, error?: unknown): void {
    if (!this.#failing.has(key)) {
      const fields = { resource: key, ...(error !== undefined && { err: error }) };
      this.#options.log.warn(fields, failurePhrases[failure]);
    }
    this.#failing.add(key);
  }

  /** Whole seconds, as the API keeps times. */
  #now(): string {
    return new Date(this.#options.clock.nowMs()).toISOString().replace(/\.\d+Z$/, "Z");
  }
}

const failurePhrases = {
  unread: "cannot read the status that stands; it is tried again",
  unwritten: "cannot write the status; it is tried again",
  contested: "the status is changed by somebody else as often as it is put right",
} as const;

/** A write that is due. */
interface Task {
  readonly key: string;
  readonly namespace: string;
  readonly run: () => Promise<boolean>;
}

/** Finds what of one object is to be written, if anything. */
type Comparison = () => readonly Task[];

/** To compare thousands of statuses takes time. */
function* tasksIn(comparisons: readonly Comparison[]): Steps<readonly Task[]> {
  const tasks: Task[] = [];
  for (const compare of comparisons) {
    tasks.push(...compare());
    yield;
  }
  return tasks;
}

function indexed(objects: readonly StandingObject[]): ReadonlyMap<string, StandingObject> {
  return new Map(objects.map((object) => [nameOf(object.metadata), object]));
}

function nameOf({ namespace, name }: ObjectName): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** The first of each namespace, then the second of each, and so on. */
function byTurns(tasks: readonly Task[]): readonly Task[] {
  const places = new Map<string, number>();
  const placed = tasks.map((task) => {
    const place = places.get(task.namespace) ?? 0;
    places.set(task.namespace, place + 1);
    return { task, place };
  });
  return placed.sort((a, b) => a.place - b.place).map(({ task }) => task);
}

/** The outcomes of the tasks that were begun. */
async function runParallel(tasks: readonly Task[], mayBegin: () => boolean): Promise<readonly boolean[]> {
  const outcomes: boolean[] = [];
  const waiting = tasks.values();
  const lane = async () => {
    for (const { run } of waiting) {
      if (!mayBegin()) return;
      outcomes.push(await run());
    }
  };
  await Promise.all(Array.from({ length: parallel }, lane));
  return outcomes;
}
