/** Durations of the Gateway API (GEP-2257): text such as `1m30s`, each unit at most once or often, in any order. */
import { text } from "./schema.ts";

/** Form of a duration. */
export const durationPattern = /^([0-9]{1,5}(h|m|s|ms)){1,4}$/;

/** Duration as users write it; `durationMs` reads it. */
export const duration = text("a duration such as 500ms, 10s or 1m30s", {
  max: 64,
  pattern: durationPattern,
});

const unitMs: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** Milliseconds of a text that `duration` took. */
export function durationMs(text: string): number {
  let ms = 0;
  for (const [, amount = "", unit = ""] of text.matchAll(/(\d+)(ms|h|m|s)/gy))
    ms += Number(amount) * (unitMs[unit] ?? 0);
  return ms;
}
