/**
 * Limits on the time and memory of the search for conflicts. Without them, the work is the product of routes and
 * listeners, and tenants write both. The limits grow with the size of the routes alone. Namespaces share them, so that
 * the routes of one namespace cannot use up the share of another. Matches beyond the limits are not compared, and the
 * hostnames concerned are reported as unexamined.
 */

import { routeName } from "@gatewayproxy/runtime/route-key";

/** Look-ups allowed in addition to those that follow from the size of the routes. */
const spareLookUps = 50_000;

/**
 * Look-ups allowed for each match and each hostname of a route; more than one, because a route can be in several
 * contests.
 */
const lookUpsPerText = 4;

/** Conflicts to store in total. Each takes 100 to 300 bytes. */
const maxStored = 100_000;

/** The limits of one search, divided between namespaces. */
export interface Budget {
  /** Look-ups for comparing matches. */
  readonly lookUps: Purse;
  /** Conflicts to store. */
  readonly stored: Purse;
}

/** What namespaces may spend. */
export interface Purse {
  /** Number of calls of `spend` that returned false. */
  readonly denials: number;
  /**
   * Takes `units` for the namespace.
   *
   * @returns false, and takes nothing, if less is left.
   */
  spend(namespace: string, units: number): boolean;
}

/**
 * @param inputSize matches and hostnames of all routes, each route once.
 * @param demands matches to compare, by namespace. It bounds the conflicts too: a match has at most one winner in each
 *   group of hostnames.
 */
export function budgetFor(inputSize: number, demands: ReadonlyMap<string, number>): Budget {
  return {
    lookUps: new Allowance(spareLookUps + lookUpsPerText * inputSize, demands),
    stored: new Allowance(maxStored, demands),
  };
}

/**
 * An amount that namespaces share. Each namespace gets its demand, or an equal share if its demand is greater (max-min
 * fairness). The rest goes to the namespaces that need it first.
 */
export class Allowance implements Purse {
  readonly #parts = new Map<string, number>();
  #rest: number;
  #denials = 0;

  constructor(total: number, demands: ReadonlyMap<string, number>) {
    this.#rest = total;
    let others = demands.size;
    for (const [namespace, demand] of [...demands].sort(([, a], [, b]) => a - b)) {
      const part = Math.min(demand, Math.floor(this.#rest / others));
      this.#parts.set(namespace, part);
      this.#rest -= part;
      others--;
    }
  }

  get denials(): number {
    return this.#denials;
  }

  spend(namespace: string, units: number): boolean {
    const part = this.#parts.get(namespace) ?? 0;
    const fromRest = Math.max(0, units - part);
    if (fromRest > this.#rest) {
      this.#denials++;
      return false;
    }
    this.#parts.set(namespace, part - (units - fromRest));
    this.#rest -= fromRest;
    return true;
  }
}

/** Takes from a purse, and counts what each namespace takes. */
export class Meter implements Purse {
  readonly spent = new Map<string, number>();
  readonly #purse: Purse;

  constructor(purse: Purse) {
    this.#purse = purse;
  }

  get denials(): number {
    return this.#purse.denials;
  }

  spend(namespace: string, units: number): boolean {
    if (!this.#purse.spend(namespace, units)) return false;
    this.spent.set(namespace, (this.spent.get(namespace) ?? 0) + units);
    return true;
  }
}

/** Returns the namespace of a route from its key. */
export function namespaceOf(route: string): string {
  const name = routeName(route);
  return name.slice(0, Math.max(0, name.indexOf("/")));
}
