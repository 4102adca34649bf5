/** Decides whether saved counters are up to date. Without the schemas, so that a browser need not load them. */
import type { StateDirectory } from "./limits.ts";

/** Counters are saved twice a second. After this time without a save, the disk or the main thread is too slow. */
const maxUnsavedMs = 5_000;

/**
 * Returns the condition of saved counters: `failing` if the last attempt to save failed, `late` if they were not saved
 * for more than five seconds.
 *
 * @param at The time of the response that contains `state`.
 */
export function saveCondition(
  { isFailing, savedUntil }: Pick<StateDirectory, "isFailing" | "savedUntil">,
  at: string,
): "failing" | "late" | "current" {
  if (isFailing) return "failing";
  return savedUntil === undefined || Date.parse(at) - Date.parse(savedUntil) > maxUnsavedMs ? "late" : "current";
}
