/** Amounts of money in whole micro-units: millionths of the unit of a currency, so that sums are exact. */

const microUnitsPerUnit = 1_000_000;

/** The digits after the point that a micro-unit has. */
const fractionDigits = 6;

/**
 * Returns the micro-units of a decimal number: 250,000 for `0.25`. The text has digits, and optionally a point with 1
 * to 6 more; the caller has checked that, and that the result is a safe integer (at most 9,007,199,254.740991).
 */
export function microUnitsOf(decimal: string): number {
  const [whole = "", fraction = ""] = decimal.split(".");
  return Number(whole) * microUnitsPerUnit + Number(fraction.padEnd(fractionDigits, "0"));
}

/** Returns micro-units in units of the currency, as the nearest number: 0.25 for 250,000. */
export function unitsOfMoney(microUnits: number): number {
  return microUnits / microUnitsPerUnit;
}

/** Returns the micro-units nearest to a number of units of the currency. */
export function microUnitsNear(units: number): number {
  return Math.round(units * microUnitsPerUnit);
}
