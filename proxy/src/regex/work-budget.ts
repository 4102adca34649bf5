/**
 * What one match or one evaluation may cost. Cost is counted in units and not in time, so that the outcome does not
 * depend on the load of the machine. A unit takes some 20 nanoseconds.
 */

/** Thrown where work would cost more than is left. */
export class BudgetExceeded extends Error {
  constructor() {
    super("the work budget is exceeded");
  }
}

export class WorkBudget {
  /** Units that are left. */
  left: number;

  constructor(units: number) {
    this.left = units;
  }

  get isExceeded(): boolean {
    return this.left < 0;
  }

  /** Takes `units` off what is left; throws `BudgetExceeded` where there are not enough. */
  spend(units: number): void {
    this.left -= units;
    if (this.left < 0) throw new BudgetExceeded();
  }
}
