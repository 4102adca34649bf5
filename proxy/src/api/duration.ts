/** Durations of the Gateway API (GEP-2257): one to four numbers with units, such as `1m30s`. */
import { text } from "./schema.ts";

/** The syntax of a duration. */
export const durationPattern = /^([0-9]{1,5}(h|m|s|ms)){1,4}$/;

/** A duration as users write it; `durationMs` converts it. */
export const duration = text("a duration such as 500ms, 10s or 1m30s", {
  max: 64,
  pattern: durationPattern,
});

const unitMs: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** Converts a valid `duration` to milliseconds. */
export function durationMs(text: string): number {
  let ms = 0;
  for (const [, amount = "", unit = ""] of text.matchAll(/(\d+)(ms|h|m|s)/gy)) {
    ms += Number(amount) * (unitMs[unit] ?? 0);
  }
  return ms;
}
