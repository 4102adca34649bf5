/** The conflicts of listeners whose routes were compared in parts, of which each has other routes. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Pace } from "../pace.ts";
import type { FoundConflicts, ListenerConflicts, RuleReach } from "./findings.ts";

/** Conflicts that several listeners share. */
export interface KeptLosses {
  readonly listeners: readonly string[];
  readonly losses: ListenerConflicts;
}

/** The conflicts of all parts, by listener. */
export class JoinedConflicts {
  readonly #kept = new Set<KeptLosses>();
  #byListener: FoundConflicts["byListener"] = new Map();

  /** The same value until conflicts are added or removed. */
  get byListener(): FoundConflicts["byListener"] {
    return this.#byListener;
  }

  *update(removed: readonly KeptLosses[], added: readonly KeptLosses[], pace: Pace): Steps<void> {
    if (removed.length + added.length === 0) return;
    for (const each of removed) this.#kept.delete(each);
    for (const each of added) this.#kept.add(each);
    const lists = new Map<string, { readonly key: string[]; readonly all: ListenerConflicts[] }>();
    for (const [at, { listeners, losses }] of [...this.#kept].entries()) {
      for (const listener of listeners) {
        const list = lists.get(listener) ?? { key: [], all: [] };
        lists.set(listener, list);
        list.key.push(String(at));
        list.all.push(losses);
      }
      if (pace.endsStep(listeners.length)) yield;
    }
    // Listeners with the same conflicts have one object.
    const known = new Map<string, ListenerConflicts>();
    const byListener = new Map<string, ListenerConflicts>();
    for (const [listener, { key, all }] of lists) {
      const text = key.join(" ");
      const conflicts = known.get(text) ?? (yield* joinedOf(all, pace));
      known.set(text, conflicts);
      byListener.set(listener, conflicts);
    }
    this.#byListener = byListener;
  }
}

function* joinedOf(all: readonly ListenerConflicts[], pace: Pace): Steps<ListenerConflicts> {
  const [first] = all;
  if (first !== undefined && all.length === 1) return first;
  const ofRoutes = new Map<string, ListenerConflicts>();
  for (const conflicts of all) {
    for (const route of conflicts.losers) {
      ofRoutes.set(route, conflicts);
      if (pace.endsStep(1)) yield;
    }
  }
  return new Joined(ofRoutes);
}

class Joined implements ListenerConflicts {
  readonly #ofRoutes: ReadonlyMap<string, ListenerConflicts>;

  constructor(ofRoutes: ReadonlyMap<string, ListenerConflicts>) {
    this.#ofRoutes = ofRoutes;
  }

  get losers(): Iterable<string> {
    return this.#ofRoutes.keys();
  }

  reachesOf(route: string): readonly RuleReach[] | undefined {
    return this.#ofRoutes.get(route)?.reachesOf(route);
  }
}
