/**
 * Sets the finalizer that prevents the deletion of a GatewayClass while Gateways use it (Gateway API `GatewayClass`).
 * Without its class, a Gateway has no controller, and its proxies stop serving it.
 */
import { isDeepStrictEqual } from "node:util";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { GatewayClass } from "../api/gateway-class.ts";
import { gatewayGroup } from "../api/names.ts";
import type { ResourceSet } from "../api/resource.ts";
import { type KubeApi, resourcePath } from "../kube/api.ts";
import { ApiFailure } from "../kube/api-failure.ts";
import { fieldsOf } from "../kube/object.ts";
import { ourClasses } from "../translate/gateway/gateway-classes.ts";

/** The finalizer that the Gateway API defines for all controllers. Classes of other controllers are not changed. */
const finalizer = `gateway-exists-finalizer.${gatewayGroup}`;

const classes = { apiVersion: `${gatewayGroup}/v1`, plural: "gatewayclasses" };

/** Collaborators of a `ClassFinalizer`. */
export interface ClassFinalizerOptions {
  /** Reads classes and writes their metadata. */
  readonly api: Pick<KubeApi, "get" | "merge">;
  /** Receives changes, and failures once for each class. */
  readonly log: Logger;
  /** Called before each change, because a replica that is not the leader any more must not make changes. */
  readonly isLeader: () => boolean;
}

/** The finalizer `gateway-exists-finalizer.gateway.networking.k8s.io` on the classes of this controller. */
export class ClassFinalizer {
  readonly #options: ClassFinalizerOptions;
  /** Names of classes whose last change failed. The failure is logged once. */
  readonly #failing = new Set<string>();

  constructor(options: ClassFinalizerOptions) {
    this.#options = options;
  }

  /**
   * Changes the finalizers of all classes. Never rejects. Resolves with false if a change failed and has to be retried.
   */
  async reconcile({ GatewayClass, Gateway }: Pick<ResourceSet, "GatewayClass" | "Gateway">): Promise<boolean> {
    const used = new Set(Gateway.map(({ spec }) => spec.gatewayClassName));
    const outcomes: boolean[] = [];
    for (const each of ourClasses(GatewayClass)) {
      const isUsed = used.has(each.metadata.name);
      if (isCurrent(each, isUsed)) continue;
      outcomes.push(await this.#reconcileClass(each, isUsed));
    }
    return outcomes.every(Boolean);
  }

  async #reconcileClass({ metadata: { name } }: GatewayClass, isUsed: boolean): Promise<boolean> {
    const { isLeader, log } = this.#options;
    if (!isLeader()) return false;
    try {
      await this.#writeFinalizers(name, isUsed);
      this.#failing.delete(name);
      return true;
    } catch (error) {
      // Another writer changed or deleted the class first. The watch reports that change, which causes the next pass.
      if (error instanceof ApiFailure && (error.status === 404 || error.status === 409)) return false;
      if (!this.#failing.has(name)) {
        log.warn({ class: name, err: error }, "cannot change the finalizer of a GatewayClass");
      }
      this.#failing.add(name);
      return false;
    }
  }

  /** Changes the newest list of the API server, because it also contains the finalizers of other controllers. */
  async #writeFinalizers(name: string, isUsed: boolean): Promise<void> {
    const { api, log } = this.#options;
    const path = resourcePath(classes, undefined, name);
    const metadata = fieldsOf((await api.get(path))?.["metadata"]);
    const { resourceVersion, deletionTimestamp, finalizers } = metadata;
    const before: readonly unknown[] = Array.isArray(finalizers) ? finalizers : [];
    const others = before.filter((each) => each !== finalizer);
    const after = isUsed ? [...others, finalizer] : others;
    const isBeingDeleted = isUsed && deletionTimestamp !== undefined;
    if (resourceVersion === undefined || isBeingDeleted || isDeepStrictEqual(new Set(before), new Set(after))) return;
    await api.merge(path, { metadata: { resourceVersion, finalizers: after } });
    log.info(
      { class: name },
      isUsed ? "GatewayClass is protected from deletion while Gateways use it" : "GatewayClass can be deleted",
    );
  }
}

/** Whether the class has the desired finalizer. The API server adds no finalizer to an object that is being deleted. */
function isCurrent({ metadata: { finalizers = [], deletionTimestamp } }: GatewayClass, isUsed: boolean): boolean {
  const hasFinalizer = finalizers.includes(finalizer);
  return hasFinalizer === isUsed || (isUsed && deletionTimestamp !== undefined);
}
