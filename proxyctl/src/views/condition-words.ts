/** Describes conditions of a status in one word: a reason, or that there is no problem. */
import { isMet } from "@gatewayproxy/admin-api/conditions";
import type { Condition } from "@gatewayproxy/admin-api/shape";

/** Returns the reasons of unmet conditions, or the types of conditions that report an error by being True. */
export function describeConditions(conditions: readonly Condition[], textIfMet: string): string {
  const unmet = conditions
    .filter((condition) => !isMet(condition))
    .map(({ type, status, reason }) => (status === "True" ? type : reason));
  return unmet.length === 0 ? textIfMet : [...new Set(unmet)].join(",");
}

/** Returns the messages of unmet conditions. */
export function messagesOf(conditions: readonly Condition[]): readonly string[] {
  return conditions
    .filter((condition) => !isMet(condition))
    .map(({ type, status, reason, message }) => `${type}=${status} (${reason}): ${message}`);
}
