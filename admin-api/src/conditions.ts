/** Evaluates conditions for display. Without the schemas, so that a browser need not load them. */
import type { Condition } from "./shape.ts";

/** Conditions that report an error when they are true; all others do when they are false. */
const errorTypes: ReadonlySet<string> = new Set([
  ...["PartiallyInvalid", "Shadowed", "PartiallyShadowed"],
  ...["Conflicted", "OverlappingTLSConfig", "InsecureFrontendValidationMode", "VolatileCounters"],
]);

/** Whether a condition has the status of an object without errors. */
export function isMet({ type, status }: Pick<Condition, "type" | "status">): boolean {
  return errorTypes.has(type) ? status === "False" : status === "True";
}
