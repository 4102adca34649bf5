/**
 * Keeps classes of ours from being deleted while Gateways use them (Gateway API `GatewayClass`): without its class a
 * Gateway is nobody's, and its proxies would stop serving it. A class that is to be deleted waits for its last Gateway.
 */
import { isDeepStrictEqual } from "node:util";
import type { Logger } from "@gatewayproxy/runtime/log";
import type { GatewayClass } from "../api/gateway-class.ts";
import { gatewayGroup } from "../api/names.ts";
import type { ResourceSet } from "../api/resource.ts";
import { type KubeApi, resourcePath } from "../kube/api.ts";
import { ApiFailure } from "../kube/api-failure.ts";
import { fieldsOf } from "../kube/object.ts";
import { ourClasses } from "../translate/gateway-classes.ts";

/** Of the Gateway API, whoever the controller is; that of a class of another controller is not ours to touch. */
const finalizer = `gateway-exists-finalizer.${gatewayGroup}`;

const classes = { apiVersion: `${gatewayGroup}/v1`, plural: "gatewayclasses" };

export interface ClassFinalizerOptions {
  readonly api: Pick<KubeApi, "get" | "merge">;
  readonly log: Logger;
  /** Asked before each change: who has lost the lead leaves the rest to its successor. */
  readonly isLeader: () => boolean;
}

export class ClassFinalizer {
  readonly #options: ClassFinalizerOptions;
  /** Classes of which it could not be changed when it was last tried: that is told once. */
  readonly #failing = new Set<string>();

  constructor(options: ClassFinalizerOptions) {
    this.#options = options;
  }

  /** Never rejects; false where some class could not be changed and should be tried again. */
  async reconcile({ GatewayClass, Gateway }: Pick<ResourceSet, "GatewayClass" | "Gateway">): Promise<boolean> {
    const used = new Set(Gateway.map(({ spec }) => spec.gatewayClassName));
    const outcomes: boolean[] = [];
    for (const each of ourClasses(GatewayClass)) {
      const isUsed = used.has(each.metadata.name);
      if (mayStay(each, isUsed)) continue;
      outcomes.push(await this.#attempt(each, isUsed));
    }
    return outcomes.every(Boolean);
  }

  async #attempt({ metadata: { name } }: GatewayClass, isUsed: boolean): Promise<boolean> {
    const { isLeader, log } = this.#options;
    if (!isLeader()) return false;
    try {
      await this.#change(name, isUsed);
      this.#failing.delete(name);
      return true;
    } catch (error) {
      // Somebody else was quicker; it is looked at again when that is seen.
      if (error instanceof ApiFailure && (error.status === 404 || error.status === 409)) return false;
      if (!this.#failing.has(name)) log.warn({ class: name, err: error }, "cannot change the finalizer of a class");
      this.#failing.add(name);
      return false;
    }
  }

  /** Changes the newest list, in which others have finalizers of their own. */
  async #change(name: string, isUsed: boolean): Promise<void> {
    const { api, log } = this.#options;
    const path = resourcePath(classes, undefined, name);
    const metadata = fieldsOf((await api.get(path))?.["metadata"]);
    const { resourceVersion, deletionTimestamp, finalizers } = metadata;
    const before: readonly unknown[] = Array.isArray(finalizers) ? finalizers : [];
    const others = before.filter((each) => each !== finalizer);
    const after = isUsed ? [...others, finalizer] : others;
    const isLate = isUsed && deletionTimestamp !== undefined;
    if (resourceVersion === undefined || isLate || isDeepStrictEqual(new Set(before), new Set(after))) return;
    await api.merge(path, { metadata: { resourceVersion, finalizers: after } });
    log.info({ class: name }, isUsed ? "class is kept while Gateways use it" : "class may be deleted");
  }
}

/** Whether the finalizer is where it should be. One that is being deleted takes none any more, says the API. */
function mayStay({ metadata: { finalizers = [], deletionTimestamp } }: GatewayClass, isUsed: boolean): boolean {
  const isHeld = finalizers.includes(finalizer);
  return isHeld === isUsed || (isUsed && deletionTimestamp !== undefined);
}
