/**
 * Finds the routes whose status may differ from the desired one, without a look at each of thousands: those that have
 * changed since the last pass, those whose desired status has, and those that were not up to date.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { differenceBetween, type ListChange } from "@gatewayproxy/runtime/lists";
import type { RouteStatus } from "../api/status.ts";
import type { CurrentObject } from "./written-statuses.ts";

/** The routes of one kind in successive passes. */
export class DueRoutes {
  #routes: readonly CurrentObject[] = [];
  #statuses: readonly RouteStatus[] = [];
  /** The desired statuses, by `objectKey`. */
  readonly #desired = new Map<string, RouteStatus>();
  /** Those of the last pass whose status was not known to be up to date. */
  #open: readonly CurrentObject[] = [];

  /**
   * Begins a pass, and returns the routes to compare. They are all open until `settle`.
   *
   * @param routes the current ones. @param statuses the desired statuses of this controller.
   */
  of(routes: readonly CurrentObject[], statuses: readonly RouteStatus[]): readonly CurrentObject[] {
    const ofRoutes = differenceBetween(this.#routes, routes);
    const ofStatuses = differenceBetween(this.#statuses, statuses);
    this.#routes = routes;
    this.#statuses = statuses;
    for (const status of ofStatuses.removed) this.#desired.delete(objectKey(status));
    for (const status of ofStatuses.added) this.#desired.set(objectKey(status), status);
    this.#open = dueIn(routes, ofRoutes, ofStatuses, this.#open);
    return this.#open;
  }

  /** Returns the desired status of a route; undefined if this controller has none for it. */
  statusOf({ metadata }: CurrentObject): RouteStatus | undefined {
    return this.#desired.get(objectKey(metadata));
  }

  /** @param open the routes of the pass whose status is not known to be up to date. */
  settle(open: readonly CurrentObject[]): void {
    this.#open = open;
  }
}

/** @param open those of the last pass. */
function dueIn(
  routes: readonly CurrentObject[],
  ofRoutes: ListChange<CurrentObject>,
  ofStatuses: ListChange<RouteStatus>,
  open: readonly CurrentObject[],
): readonly CurrentObject[] {
  const removed = new Set(ofRoutes.removed);
  const due = new Set([...ofRoutes.added, ...open.filter((route) => !removed.has(route))]);
  const changed = new Map([...ofStatuses.removed, ...ofStatuses.added].map((status) => [objectKey(status), status]));
  for (const { metadata } of [...ofRoutes.removed, ...due]) changed.delete(objectKey(metadata));
  // To read a name is quicker than to make a key.
  const names = new Set(Array.from(changed.values(), ({ name }) => name));
  const others = names.size === 0 ? [] : routes.filter(({ metadata }) => names.has(metadata.name));
  for (const route of others) if (changed.has(objectKey(route.metadata))) due.add(route);
  return [...due];
}
