/**
 * The budget of one match or one evaluation. The cost is counted in units instead of time, so that the outcome does
 * not depend on the load of the machine.
 * 40,000 units take about a millisecond (docs/adr/0007).
 */

/** Thrown if work costs more than the rest of the budget. */
export class BudgetExceeded extends Error {
  constructor() {
    super("the work budget is exceeded");
  }
}

/** A number of units that work may spend. */
export class WorkBudget {
  /** Remaining units; negative after the budget is exceeded. */
  left: number;

  constructor(units: number) {
    this.left = units;
  }

  get isExceeded(): boolean {
    return this.left < 0;
  }

  /** Subtracts `units`. Throws `BudgetExceeded` if fewer are left. */
  spend(units: number): void {
    this.left -= units;
    if (this.left < 0) throw new BudgetExceeded();
  }
}
