/** What translation finds wrong with a resource, as a condition shows it and as a problem tells it. */
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import type { FieldPath } from "../api/issue.ts";
import type { ResourceKey } from "../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../api/resource-problem.ts";
import type { Condition } from "../api/status.ts";

/** One fault of one resource. */
export interface Finding<Reason extends string = string> {
  readonly reason: Reason;
  readonly message: string;
  /** The field at fault. */
  readonly path: FieldPath;
}

/** Of an object without listeners, which is what is left of one that the parser refuses. */
export const rejectedByParser: Finding<"Invalid"> = {
  reason: "Invalid",
  message: "this version is refused and no sound one is known: nothing of it is served",
  path: ["spec"],
};

/** How a condition reads when nothing was found. */
interface Healthy<Type extends string, Reason extends string> {
  readonly type: Type;
  readonly reason: Reason;
  readonly message: string;
}

/** True as `healthy` says, or False for the reason of the first finding, with the messages of all. */
export function conditionFrom<Type extends string, Good extends string, Bad extends string>(
  healthy: Healthy<Type, Good>,
  findings: readonly Finding<Bad>[],
  generation: number | undefined,
): Condition<Type, Good | Bad> {
  const { type, reason, message } = healthy;
  const [first] = findings;
  if (first === undefined) return { type, status: "True", reason, message, ...observed(generation) };
  return { type, status: "False", reason: first.reason, message: joinMessages(findings), ...observed(generation) };
}

/** `observedGeneration` as conditions have it: absent where the object has no generation. */
export function observed(generation: number | undefined): { readonly observedGeneration?: number } {
  return generation === undefined ? {} : { observedGeneration: generation };
}

/** One sentence of bounded length out of all messages; the same fault in several rules is told once. */
export function joinMessages(findings: readonly { readonly message: string }[]): string {
  return joinSome(findings.map(({ message }) => message));
}

/** The findings of one resource as problems. */
export function problemsFrom(resource: ResourceKey, findings: readonly Finding[]): readonly ResourceProblem[] {
  return findings.map(({ path, message }) => resourceProblem(resource, path, message));
}
