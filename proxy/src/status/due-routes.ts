/**
 * Finds the routes whose status may differ from the desired one, without a look at each of thousands: those that have
 * changed since the last pass, those whose desired status has, and those that were not up to date.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { differenceBetween } from "@gatewayproxy/runtime/lists";
import type { RouteKind } from "@gatewayproxy/runtime/route-key";
import type { RouteStatus } from "../api/status.ts";
import type { CurrentObject } from "./written-statuses.ts";

/** The routes of a kind in the last pass. */
interface LastPass {
  readonly routes: readonly CurrentObject[];
  readonly statuses: readonly RouteStatus[];
  /** Those whose status was not known to be up to date. */
  readonly open: readonly CurrentObject[];
}

/** The routes of successive passes. */
export class DueRoutes {
  readonly #last = new Map<RouteKind, LastPass>();

  /**
   * Returns the routes to compare. Those of the pass are all open until `settle`.
   *
   * @param routes the current ones. @param statuses the desired statuses of this controller.
   */
  of(kind: RouteKind, routes: readonly CurrentObject[], statuses: readonly RouteStatus[]): readonly CurrentObject[] {
    const last = this.#last.get(kind);
    const due = last === undefined ? routes : dueSince(last, routes, statuses);
    this.#last.set(kind, { routes, statuses, open: due });
    return due;
  }

  /** @param open the routes of the pass whose status is not known to be up to date. */
  settle(kind: RouteKind, open: readonly CurrentObject[]): void {
    const last = this.#last.get(kind);
    if (last !== undefined) this.#last.set(kind, { ...last, open });
  }
}

function dueSince(
  last: LastPass,
  routes: readonly CurrentObject[],
  statuses: readonly RouteStatus[],
): readonly CurrentObject[] {
  const ofRoutes = differenceBetween(last.routes, routes);
  const ofStatuses = differenceBetween(last.statuses, statuses);
  const removed = new Set(ofRoutes.removed);
  const due = new Set([...ofRoutes.added, ...last.open.filter((route) => !removed.has(route))]);
  const names = new Set([...ofStatuses.removed, ...ofStatuses.added].map(objectKey));
  for (const { metadata } of [...ofRoutes.removed, ...due]) names.delete(objectKey(metadata));
  if (names.size > 0) for (const route of routes) if (names.has(objectKey(route.metadata))) due.add(route);
  return [...due];
}
