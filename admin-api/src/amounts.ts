/** Formats the units of limits for people. Without the schemas, so that a browser need not load them. */

/**
 * Returns a number of micro-units of a currency as a decimal number with 2 to 6 digits after the point: `25.00`,
 * `0.000125`.
 */
export function moneyText(microUnits: number): string {
  const whole = Math.trunc(microUnits / 1_000_000);
  const fraction = String(microUnits % 1_000_000).padStart(6, "0");
  return `${whole}.${fraction.slice(0, 2)}${fraction.slice(2).replace(/0{1,4}$/, "")}`;
}

/** Returns a number of units of a limit without their name: money for `spend`, a whole number otherwise. */
export function amountText(units: number, counts: string | undefined): string {
  return counts === "spend" ? moneyText(units) : String(units);
}
