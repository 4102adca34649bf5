/** Conditions of a status in one word: what is wrong, or that nothing is. */
import { isMet } from "@gatewayproxy/admin-api/conditions";
import type { Condition } from "@gatewayproxy/admin-api/shape";

/** What is not as it should be: reasons, or the types of conditions that tell of a fault by being True. */
export function describeConditions(conditions: readonly Condition[], fine: string): string {
  const unmet = conditions
    .filter((condition) => !isMet(condition))
    .map(({ type, status, reason }) => (status === "True" ? type : reason));
  return unmet.length === 0 ? fine : [...new Set(unmet)].join(",");
}

/** The messages of what is not as it should be. */
export function messagesOf(conditions: readonly Condition[]): readonly string[] {
  return conditions
    .filter((condition) => !isMet(condition))
    .map(({ type, status, reason, message }) => `${type}=${status} (${reason}): ${message}`);
}
