/**
 * The parentRefs of routes that a translation has accepted. Those of thousands of routes follow from the last ones,
 * and whether anything has changed for a page of routes is known without a look at each.
 */
import { derived, joined } from "@gatewayproxy/runtime/lists";
import { routeKinds } from "@gatewayproxy/runtime/route-key";
import type { ParentRef } from "../../api/http-route.ts";
import { isTrue, routeLists, type RouteStatus, type Statuses } from "../../api/status.ts";

/** As many versions refer to each other until all parentRefs are gathered again. */
const maxVersions = 32;

/** One version. Immutable. */
export class AcceptedParents {
  /** The version from which this one follows; undefined if `#all` has every accepted parentRef. */
  readonly #from: AcceptedParents | undefined;
  /** Since `#from`: whether each is accepted now. */
  readonly #changes: ReadonlyMap<ParentRef, boolean>;
  readonly #all: ReadonlySet<ParentRef>;
  readonly #versions: number;

  private constructor(
    all: ReadonlySet<ParentRef>,
    from?: AcceptedParents,
    changes: ReadonlyMap<ParentRef, boolean> = new Map<ParentRef, boolean>(),
  ) {
    this.#all = all;
    this.#from = from;
    this.#changes = changes;
    this.#versions = from === undefined ? 1 : from.#versions + 1;
  }

  /** The version that accepts exactly these. */
  static of(accepted: Iterable<ParentRef>): AcceptedParents {
    return new AcceptedParents(new Set(accepted));
  }

  /** Returns the next version. A parentRef in both lists is accepted. */
  after(removed: readonly ParentRef[], added: readonly ParentRef[]): AcceptedParents {
    const changes = new Map([
      ...removed.map((ref) => [ref, false] as const),
      ...added.map((ref) => [ref, true] as const),
    ]);
    const next = new AcceptedParents(this.#all, this, changes);
    return next.#versions <= maxVersions ? next : new AcceptedParents(next.#gathered());
  }

  has(ref: ParentRef): boolean {
    return this.#changes.get(ref) ?? this.#from?.has(ref) ?? this.#all.has(ref);
  }

  /** Whether this version is known to follow from another one without a change of any of these parentRefs. */
  isSameFor(refs: readonly ParentRef[], earlier: AcceptedParents): boolean {
    if (this === earlier) return true;
    if (this.#from === undefined) return false;
    for (const ref of this.#changes.keys()) if (refs.includes(ref)) return false;
    return this.#from.isSameFor(refs, earlier);
  }

  #gathered(): Set<ParentRef> {
    const all = this.#from === undefined ? new Set(this.#all) : this.#from.#gathered();
    for (const [ref, isAccepted] of this.#changes) {
      if (isAccepted) all.add(ref);
      else all.delete(ref);
    }
    return all;
  }
}

/** Returns those of the statuses of a translation. */
export function acceptedParents(statuses: Statuses): AcceptedParents {
  return acceptedIn(joined(routeKinds.map((kind) => statuses[routeLists[kind]])));
}

const acceptedIn = derived<RouteStatus, AcceptedParents>(
  (routes) => AcceptedParents.of(routes.flatMap(acceptedOf)),
  (before, { removed, added }) => before.after(removed.flatMap(acceptedOf), added.flatMap(acceptedOf)),
);

function acceptedOf({ parents }: RouteStatus): readonly ParentRef[] {
  return parents.flatMap(({ conditions, parentRef }) => {
    return isTrue(conditions, "Accepted") ? [parentRef] : [];
  });
}
