/**
 * Bounds listeners, since anyone may write thousands of Gateways, and of ListenerSets for a Gateway that allows them.
 * Each process that serves Gateways has bounds for the listeners and ports of ListenerSets, so the status of a
 * ListenerSet does not depend on other Gateways. The controller, which validates many Gateways, has further bounds for
 * the listeners of all of them, with their own reason.
 *
 * Namespaces share all bounds fairly. Within a namespace, the oldest objects have precedence.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Gateway } from "../../api/gateway.ts";
import type { ListenerSet } from "../../api/listener-set.ts";
import { FairBudget } from "../fair-share.ts";
import { sortByAge } from "../index/object-names.ts";

/** For the Gateways of a serving process: a listener takes some kilobytes of each worker. */
export const maxServedListeners = 8_192;
/**
 * Ports of these listeners, each counted once for each namespace. A port is a socket of each worker, and a port of the
 * Service of the Gateway: in many clusters one of the ports of all nodes, of which there are 2,768.
 */
export const maxServedPorts = 512;
/**
 * For all Gateways that a process validates, and again for their ListenerSets: a listener takes some 8 KB with its
 * status.
 */
export const maxValidatedListeners = 8_192;

/** Why the listeners of an object are not served, or not validated. */
export type BeyondListenerShare<Reason = "TooManyListeners" | "TooManyListenersInAll"> = {
  readonly reason: Reason;
  readonly message: string;
};

/** Returns why Gateways are not validated that are beyond the share of their namespace. */
export function gatewaysBeyondShare(
  gateways: readonly Gateway[],
): ReadonlyMap<Gateway, BeyondListenerShare<"TooManyListenersInAll">> {
  const beyond = new Map<Gateway, BeyondListenerShare<"TooManyListenersInAll">>();
  const listeners = gateways.reduce((sum, { spec }) => sum + spec.listeners.length, 0);
  if (listeners <= maxValidatedListeners) return beyond;
  const validated = new FairBudget(maxValidatedListeners);
  for (const { metadata, spec } of gateways) validated.want(metadata.namespace, spec.listeners.length);
  for (const gateway of sortByAge(gateways)) {
    const excess = takeValidated(gateway, "Gateways", validated);
    if (excess !== undefined) beyond.set(gateway, excess);
  }
  return beyond;
}

/** A ListenerSet and the Gateway that allows it. */
export interface AllowedSet {
  readonly set: ListenerSet;
  readonly gateway: Gateway;
}

/**
 * Returns why ListenerSets are not served that are beyond the share of their namespace. A step for each set.
 *
 * @param allowed in the order of their precedence.
 * @param placeOf names the process that serves a Gateway.
 */
export function* setsBeyondShare(
  allowed: readonly AllowedSet[],
  placeOf: (gateway: Gateway) => string,
): Steps<ReadonlyMap<ListenerSet, BeyondListenerShare>> {
  const beyond = new Map<ListenerSet, BeyondListenerShare>();
  // A set has at most as many ports as listeners.
  const listeners = allowed.reduce((sum, { set }) => sum + set.spec.listeners.length, 0);
  if (listeners <= Math.min(maxServedListeners, maxServedPorts, maxValidatedListeners)) return beyond;
  const places = new Map<string, PlaceBudget>();
  const placeBudget = (gateway: Gateway): PlaceBudget => {
    const place = placeOf(gateway);
    const known = places.get(place) ?? new PlaceBudget();
    places.set(place, known);
    return known;
  };
  for (const { set, gateway } of allowed) {
    placeBudget(gateway).want(set);
    yield;
  }
  const validated = new FairBudget(maxValidatedListeners);
  for (const { shares } of places.values()) for (const [namespace, share] of shares) validated.want(namespace, share);
  for (const { set, gateway } of allowed) {
    const excess = placeBudget(gateway).take(set) ?? takeValidated(set, "ListenerSets", validated);
    if (excess !== undefined) beyond.set(set, excess);
    yield;
  }
  return beyond;
}

class PlaceBudget {
  readonly #listeners = new FairBudget(maxServedListeners);
  readonly #ports = new FairBudget(maxServedPorts);
  readonly #wantedPorts = new Map<string, Set<string>>();
  readonly #takenPorts = new Map<string, Set<string>>();

  want(set: ListenerSet): void {
    const { namespace } = set.metadata;
    this.#listeners.want(namespace, set.spec.listeners.length);
    this.#ports.want(namespace, addPorts(this.#wantedPorts, set, newPorts(this.#wantedPorts, set)));
  }

  /** The shares of listeners. */
  get shares(): ReadonlyMap<string, number> {
    return this.#listeners.shares;
  }

  /** Takes the listeners of a set, all or none, so that one condition describes them. */
  take(set: ListenerSet): BeyondListenerShare | undefined {
    const { namespace } = set.metadata;
    const { length } = set.spec.listeners;
    const ports = newPorts(this.#takenPorts, set);
    const [listeners, ofPorts] = [this.#listeners, this.#ports];
    if (length > listeners.left(namespace)) {
      const message = `the set has ${length} listeners, and namespace ${namespace} has a share of ${listeners.share(namespace)} of the ${listeners.capacity} listeners of ListenerSets that the proxies of the Gateway serve, the oldest sets first`;
      return { reason: "TooManyListeners", message };
    }
    if (ports.size > ofPorts.left(namespace)) {
      const message = `the set has ${ports.size} ports that no older set has, and namespace ${namespace} has a share of ${ofPorts.share(namespace)} of the ${ofPorts.capacity} ports of ListenerSets that the proxies of the Gateway serve, the oldest sets first`;
      return { reason: "TooManyListeners", message };
    }
    listeners.take(namespace, length);
    ofPorts.take(namespace, addPorts(this.#takenPorts, set, ports));
    return undefined;
  }
}

function takeValidated(
  { metadata: { namespace }, spec }: Gateway | ListenerSet,
  kinds: "Gateways" | "ListenerSets",
  validated: FairBudget,
): BeyondListenerShare<"TooManyListenersInAll"> | undefined {
  const { length } = spec.listeners;
  if (length <= validated.left(namespace)) {
    validated.take(namespace, length);
    return undefined;
  }
  const message = `it has ${length} listeners, and namespace ${namespace} has a share of ${validated.share(namespace)} of the ${validated.capacity} listeners of all ${kinds} that the controller validates, the oldest first; running proxies may serve them without a status`;
  return { reason: "TooManyListenersInAll", message };
}

/** Returns the ports of a set that other sets of its namespace have not added. UDP has ports of its own. */
function newPorts(
  byNamespace: ReadonlyMap<string, ReadonlySet<string>>,
  { metadata, spec }: ListenerSet,
): ReadonlySet<string> {
  const known = byNamespace.get(metadata.namespace);
  const all = spec.listeners.map(({ port, protocol }) => (protocol === "UDP" ? `${port}/UDP` : String(port)));
  return new Set(all.filter((port) => known?.has(port) !== true));
}

/** @returns their number. */
function addPorts(
  byNamespace: Map<string, Set<string>>,
  { metadata }: ListenerSet,
  ports: ReadonlySet<string>,
): number {
  const known = byNamespace.get(metadata.namespace) ?? new Set();
  byNamespace.set(metadata.namespace, known);
  for (const port of ports) known.add(port);
  return ports.size;
}
