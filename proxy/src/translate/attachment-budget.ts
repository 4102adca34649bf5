/**
 * Bounds attachments of routes to listeners, which routes and listeners multiply. Each process that serves Gateways has a
 * bound, which decides what it serves; so the status of a route at a Gateway does not depend on other Gateways. Who
 * judges many Gateways, as the controller does, has a bound for all of them with a reason of its own.
 *
 * A comparison of a route with a listener takes time whether or not it leads to an attachment, and has a bound as well.
 *
 * All are shared fairly between namespaces. Routes of a namespace ask in their order, the oldest first.
 */
import type { Gateway } from "../api/gateway.ts";
import type { HttpRoute, ParentRef } from "../api/http-route.ts";
import type { ListenerState } from "./listeners.ts";
import { FairBudget } from "./fair-share.ts";

/** Of the Gateways that one process serves: an attachment takes some kilobytes of each worker. */
export const maxServedAttachments = 64_000;
/** Of all Gateways that one process judges: an attachment takes some hundred bytes. */
export const maxValidatedAttachments = 256_000;

/** Comparisons of routes with listeners in one process: some take a microsecond. Each is made twice. */
export const maxComparisons = 1_000_000;

/** Why attachments are refused. */
export interface BeyondShare {
  readonly reason: "TooManyAttachments" | "TooManyAttachmentsInAll";
  readonly message: string;
}

/** First told by `want` what all routes want, then asked by `take`. */
export class AttachmentBudget {
  readonly #placeOf: (gateway: Gateway) => string;
  readonly #served = new Map<string, FairBudget>();
  #judged: FairBudget | undefined;
  readonly #comparisons = new FairBudget(maxComparisons);
  /** By reference, once it has been asked for. */
  readonly #compared = new Map<ParentRef, BeyondShare | undefined>();

  /** @param placeOf names the process that serves a Gateway. */
  constructor(placeOf: (gateway: Gateway) => string) {
    this.#placeOf = placeOf;
  }

  wantComparisons({ metadata }: HttpRoute, listeners: number): void {
    this.#comparisons.want(metadata.namespace, listeners);
  }

  /**
   * Whether a route may be compared with the listeners of one parent. The response is the same each time.
   *
   * @returns undefined where it may.
   */
  compare({ metadata: { namespace } }: HttpRoute, parentRef: ParentRef, listeners: number): BeyondShare | undefined {
    if (!this.#compared.has(parentRef)) this.#compared.set(parentRef, this.#takeComparisons(namespace, listeners));
    return this.#compared.get(parentRef);
  }

  #takeComparisons(namespace: string, listeners: number): BeyondShare | undefined {
    const comparisons = this.#comparisons;
    if (listeners <= comparisons.left(namespace)) {
      comparisons.take(namespace, listeners);
      return undefined;
    }
    const message = `the route is not compared with the ${listeners} listeners of this parent: namespace ${namespace} has a share of ${comparisons.share(namespace)} of the ${comparisons.capacity} comparisons of routes with listeners, the oldest routes first; name fewer parents`;
    return { reason: "TooManyAttachmentsInAll", message };
  }

  wantsAll({ metadata }: HttpRoute, listener: ListenerState): boolean {
    return this.#servedAt(listener).wantsAll(metadata.namespace);
  }

  want({ metadata }: HttpRoute, listener: ListenerState, attachments: number): void {
    this.#servedAt(listener).want(metadata.namespace, attachments);
  }

  /**
   * Takes attachments to listeners of one parent, all or none, so that a condition tells all.
   *
   * @param listener one of them.
   * @param length how many.
   * @returns undefined where they are within the share of the route's namespace.
   */
  take({ metadata: { namespace } }: HttpRoute, listener: ListenerState, length: number): BeyondShare | undefined {
    const served = this.#servedAt(listener);
    if (length > served.left(namespace)) {
      const message = `the route would be attached to ${length} listeners of this parent, and namespace ${namespace} has a share of ${served.share(namespace)} of the ${served.capacity} attachments that the proxies of the Gateway serve, the oldest routes first; name fewer listeners by sectionName or port, or split the Gateway`;
      return { reason: "TooManyAttachments", message };
    }
    // Proxies serve it whether or not it is judged.
    served.take(namespace, length);
    this.#judged ??= this.#resolvedOf();
    if (length > this.#judged.left(namespace)) {
      const message = `the route would be attached to ${length} listeners of this parent, and namespace ${namespace} has a share of ${this.#judged.share(namespace)} of the ${this.#judged.capacity} attachments to all Gateways that the controller judges, the oldest routes first; proxies of the Gateway may serve the route without a status`;
      return { reason: "TooManyAttachmentsInAll", message };
    }
    this.#judged.take(namespace, length);
    return undefined;
  }

  #servedAt({ gateway }: ListenerState): FairBudget {
    const place = this.#placeOf(gateway);
    const known = this.#served.get(place) ?? new FairBudget(maxServedAttachments);
    this.#served.set(place, known);
    return known;
  }

  /** What is not served needs no judgement. */
  #resolvedOf(): FairBudget {
    const judged = new FairBudget(maxValidatedAttachments);
    for (const { shares } of this.#served.values()) {
      for (const [namespace, share] of shares) judged.want(namespace, share);
    }
    return judged;
  }
}
