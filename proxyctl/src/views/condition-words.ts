/** Conditions of a status in one word: what is wrong, or that nothing is. */
import type { Condition } from "@gatewayproxy/admin-api/shape";

/** The reasons of what is not as it should be; `fine` where every condition is True. */
export function describeConditions(conditions: readonly Condition[], fine: string): string {
  const unmet = conditions.filter(({ status }) => status !== "True").map(({ reason }) => reason);
  return unmet.length === 0 ? fine : [...new Set(unmet)].join(",");
}

/** The messages of what is not as it should be. */
export function messagesOf(conditions: readonly Condition[]): readonly string[] {
  return conditions
    .filter(({ status }) => status !== "True")
    .map(({ type, status, reason, message }) => `${type}=${status} (${reason}): ${message}`);
}
