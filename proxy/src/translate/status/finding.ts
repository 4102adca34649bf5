/** Errors that translation finds in a resource, for its conditions and for problems. */
import { joinSome } from "@gatewayproxy/runtime/bounded-text";
import type { FieldPath } from "../../api/issue.ts";
import type { ProblemCode } from "../../api/resource-problem.ts";
import type { Condition } from "../../api/status.ts";

/** An error of a resource. */
export interface Finding<Reason extends string = string> {
  readonly reason: Reason;
  readonly message: string;
  /** The invalid field; empty for the whole object. */
  readonly path: FieldPath;
  /** As `ResourceProblem.code`. */
  readonly code?: ProblemCode | undefined;
}

/** The result of a step, with the errors of the resources that it has read. */
export interface Found<T, Reason extends string> {
  readonly value: T;
  readonly findings: readonly Finding<Reason>[];
}

/** Returns the finding of a reference that is not resolved, or that is resolved to previous content. */
export function findingOfReference<Reason extends string>(
  { reason, message, code }: Omit<Finding<Reason>, "path">,
  path: FieldPath,
): Finding<Reason> {
  return { reason, message, path, code };
}

/** For an object without listeners, which represents one that the parser rejected. */
export const rejectedByParser: Finding<"Invalid"> = {
  reason: "Invalid",
  message: "the current version is invalid, and no valid version is known: nothing of it is served",
  path: ["spec"],
};

/** The condition of an object without findings. */
interface Healthy<Type extends string, Reason extends string> {
  readonly type: Type;
  readonly reason: Reason;
  readonly message: string;
}

/** Returns `healthy` with status True, or status False with the reason of the first finding and the messages of all. */
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

/** Returns `observedGeneration` for a condition, absent if the object has no generation. */
export function observed(generation: number | undefined): { readonly observedGeneration?: number } {
  return generation === undefined ? {} : { observedGeneration: generation };
}

/** Joins messages to one of bounded length. Equal messages occur once. */
export function joinMessages(findings: readonly { readonly message: string }[]): string {
  return joinSome(findings.map(({ message }) => message));
}
