/** What a condition means, for whoever shows it. Without the schemas, so that a browser need not load them. */
import type { Condition } from "./shape.ts";

/** Conditions that tell of a fault when they are true; all others do when they are not. */
const faultTypes: ReadonlySet<string> = new Set([
  ...["PartiallyInvalid", "Shadowed", "PartiallyShadowed"],
  ...["Conflicted", "OverlappingTLSConfig", "InsecureFrontendValidationMode"],
]);

/** Whether a condition says that all is well. */
export function isMet({ type, status }: Pick<Condition, "type" | "status">): boolean {
  return faultTypes.has(type) ? status === "False" : status === "True";
}
