/**
 * Bounds attachments of routes to listeners, the product of both. Each process that serves Gateways has a bound for
 * what it serves, so the status of a route at a Gateway does not depend on other Gateways. The controller, which
 * validates many Gateways, has another bound for all of them, with its own reason.
 *
 * Comparisons of routes with listeners are bounded too, since they take time even without an attachment.
 *
 * Namespaces share all bounds fairly. Within a namespace, the oldest routes have precedence.
 */
import type { Gateway } from "../../api/gateway.ts";
import type { ParentRef } from "../../api/http-route.ts";
import type { AnyRoute } from "../../api/resource.ts";
import type { ListenerState } from "../listener/listeners.ts";
import { FairBudget } from "../fair-share.ts";

/** For the Gateways of a serving process: an attachment takes some kilobytes of each worker. */
export const maxServedAttachments = 64_000;
/** For all Gateways that a process validates: an attachment takes some hundred bytes. */
export const maxValidatedAttachments = 256_000;

/** Comparisons of routes with listeners in a process. Each is made twice. */
export const maxComparisons = 1_000_000;

/** Why a route is not attached. */
export interface BeyondShare {
  readonly reason: "TooManyAttachments" | "TooManyAttachmentsInAll";
  readonly message: string;
}

/** Collects the demands of all routes by `want`, before they are attached by `take`. */
export class AttachmentBudget {
  readonly #placeOf: (gateway: Gateway) => string;
  readonly #served = new Map<string, FairBudget>();
  #validated: FairBudget | undefined;
  readonly #comparisons = new FairBudget(maxComparisons);
  /** The results by reference. */
  readonly #compared = new Map<ParentRef, BeyondShare | undefined>();

  /** @param placeOf names the process that serves a Gateway. */
  constructor(placeOf: (gateway: Gateway) => string) {
    this.#placeOf = placeOf;
  }

  wantComparisons({ metadata }: AnyRoute, listeners: number): void {
    this.#comparisons.want(metadata.namespace, listeners);
  }

  /**
   * Returns why a route is not compared with the listeners of one parent. The result is the same each time.
   *
   * @returns undefined if it may be compared.
   */
  compare({ metadata: { namespace } }: AnyRoute, parentRef: ParentRef, listeners: number): BeyondShare | undefined {
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

  wantsAll({ metadata }: AnyRoute, listener: ListenerState): boolean {
    return this.#servedAt(listener).wantsAll(metadata.namespace);
  }

  want({ metadata }: AnyRoute, listener: ListenerState, attachments: number): void {
    this.#servedAt(listener).want(metadata.namespace, attachments);
  }

  /**
   * Takes attachments to listeners of one parent, all or none, so that one condition describes them.
   *
   * @param listener one of them.
   * @param length how many.
   * @returns undefined if they are within the share of the route's namespace.
   */
  take({ metadata: { namespace } }: AnyRoute, listener: ListenerState, length: number): BeyondShare | undefined {
    const served = this.#servedAt(listener);
    if (length > served.left(namespace)) {
      const message = `the route would be attached to ${length} listeners of this parent, and namespace ${namespace} has a share of ${served.share(namespace)} of the ${served.capacity} attachments that the proxies of the Gateway serve, the oldest routes first; name fewer listeners by sectionName or port, or split the Gateway`;
      return { reason: "TooManyAttachments", message };
    }
    // Proxies serve it even if the controller does not validate it.
    served.take(namespace, length);
    this.#validated ??= this.#resolvedOf();
    if (length > this.#validated.left(namespace)) {
      const message = `the route would be attached to ${length} listeners of this parent, and namespace ${namespace} has a share of ${this.#validated.share(namespace)} of the ${this.#validated.capacity} attachments to all Gateways that the controller validates, the oldest routes first; proxies of the Gateway may serve the route without a status`;
      return { reason: "TooManyAttachmentsInAll", message };
    }
    this.#validated.take(namespace, length);
    return undefined;
  }

  #servedAt({ gateway }: ListenerState): FairBudget {
    const place = this.#placeOf(gateway);
    const known = this.#served.get(place) ?? new FairBudget(maxServedAttachments);
    this.#served.set(place, known);
    return known;
  }

  /** Attachments that are not served are not validated. */
  #resolvedOf(): FairBudget {
    const validated = new FairBudget(maxValidatedAttachments);
    for (const { shares } of this.#served.values()) {
      for (const [namespace, share] of shares) validated.want(namespace, share);
    }
    return validated;
  }
}
