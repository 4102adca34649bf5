/**
 * What a search for conflicts may take. Tenants write the routes and the listeners, and both multiply: so the search is
 * bounded by the text of the routes, and the sum is shared out, so that the routes of one namespace do not use up what
 * those of another one need. Whatever there is nothing left for is not looked at, and is reported as unexamined.
 */

/** Look-ups that are made beyond those for the routes' texts. */
const spareLookUps = 50_000;

/** Look-ups for each match and hostname that is written: a route may compete in several contests. */
const lookUpsPerText = 4;

/** Winners that are kept in all; each takes 100 to 300 bytes. */
const maxKept = 100_000;

export interface Budget {
  /** For comparing matches. */
  readonly lookUps: Allowance;
  /** For winners that are remembered. */
  readonly kept: Allowance;
}

/**
 * @param inputSize matches and hostnames of all routes, each route once.
 * @param demands matches to compare, by namespace; a match has at most one winner at each group of hostnames.
 */
export function budgetFor(inputSize: number, demands: ReadonlyMap<string, number>): Budget {
  return {
    lookUps: new Allowance(spareLookUps + lookUpsPerText * inputSize, demands),
    kept: new Allowance(maxKept, demands),
  };
}

/**
 * An amount that namespaces share. Each has what it demands, or an equal part where that is less; what no part needs is
 * for whoever asks first.
 */
export class Allowance {
  readonly #parts = new Map<string, number>();
  #rest: number;
  #refusals = 0;

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

  /** How often `spend` has said no. */
  get refusals(): number {
    return this.#refusals;
  }

  /** @returns false, and takes nothing, where there is not so much left for the namespace. */
  spend(namespace: string, units: number): boolean {
    const part = this.#parts.get(namespace) ?? 0;
    const fromRest = Math.max(0, units - part);
    if (fromRest > this.#rest) {
      this.#refusals++;
      return false;
    }
    this.#parts.set(namespace, part - (units - fromRest));
    this.#rest -= fromRest;
    return true;
  }
}

/** Of the key of a route, `namespace/name`. */
export function namespaceOf(route: string): string {
  return route.slice(0, Math.max(0, route.indexOf("/")));
}
