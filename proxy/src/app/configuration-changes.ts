/** Summarises the differences between two snapshots in numbers and names, for the log. */
import { isDeepStrictEqual } from "node:util";
import { backendsByKey } from "../ir/backends-by-key.ts";
import type { Route, Snapshot, StreamRoute } from "../ir/snapshot.ts";
import { bindName } from "../data-plane/data-plane.ts";

/** Maximum names in one field. */
const maxNames = 10;

/** Returns the added, removed and changed names of listeners, routes and backends. */
export function snapshotChanges(before: Snapshot, after: Snapshot): object {
  return {
    generation: after.generation,
    listeners: changes(listenersOf(before), listenersOf(after)),
    routes: changes(routesOf(before), routesOf(after)),
    backends: changes(backendsByKey(before.backends), backendsByKey(after.backends)),
  };
}

function listenersOf({ binds }: Snapshot): ReadonlyMap<string, unknown> {
  return new Map(
    binds.flatMap((bind) =>
      [...bind.listeners, ...(bind.streams ?? [])].map(
        ({ key, ...listener }) => [key, { ...listener, routes: [], bind: bindName(bind) }] as const,
      ),
    ),
  );
}

/** Returns routes by key. A route of several listeners is compared as attached to the first one. */
function routesOf({ binds }: Snapshot): ReadonlyMap<string, unknown> {
  const routes = binds.flatMap(({ listeners, streams = [] }) =>
    [...listeners, ...streams].flatMap((listener): readonly (Route | StreamRoute)[] => listener.routes),
  );
  return new Map(routes.toReversed().map((route) => [route.key, route]));
}

function changes(before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>): object | undefined {
  const added = [...after.keys()].filter((key) => !before.has(key));
  const removed = [...before.keys()].filter((key) => !after.has(key));
  const changed = [...after].filter(([key, value]) => before.has(key) && !isDeepStrictEqual(before.get(key), value));
  const names = { added, removed, changed: changed.map(([key]) => key) };
  const present = Object.entries(names).filter(([, keys]) => keys.length > 0);
  return present.length === 0 ? undefined : Object.fromEntries(present.map(([kind, keys]) => [kind, namesOf(keys)]));
}

function namesOf(names: readonly string[]): readonly string[] {
  return names.length <= maxNames ? names : [...names.slice(0, maxNames), `and ${names.length - maxNames} more`];
}
