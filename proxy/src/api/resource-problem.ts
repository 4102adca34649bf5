/**
 * Problems in parsed resources. The code that finds a problem knows the field; only the reader of the text knows its
 * location.
 */
import type { Problem } from "@gatewayproxy/runtime/problem";
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import { type FieldPath, renderPath } from "./issue.ts";
import type { InForceByKey } from "./parse-manifests.ts";
import type { ResourceKey } from "./resource.ts";

/**
 * The code of a problem that other manifests may solve.
 * - `ReferentNotFound`: the referenced object does not exist.
 * - `ReferenceNotPermitted`: no ReferenceGrant permits the reference.
 * - `TargetNotServed`: the target of a policy exists, but no Gateway serves it.
 * - `NoValidAuthority`: none of the referenced authorities exists.
 */
export type ProblemCode = "ReferentNotFound" | "ReferenceNotPermitted" | "TargetNotServed" | "NoValidAuthority";

/** A problem with a field of a resource. */
export interface ResourceProblem extends Problem {
  readonly resource: ResourceKey;
  readonly fieldPath: FieldPath;
  /** Absent for a problem of the object itself. */
  readonly code?: ProblemCode;
}

/** Builds a problem; its `path` is the rendered field path. */
export function resourceProblem(
  resource: ResourceKey,
  fieldPath: FieldPath,
  message: string,
  code?: ProblemCode,
): ResourceProblem {
  const path = fieldPath.length === 0 ? {} : { path: renderPath(fieldPath) };
  return { message, resource, ...path, fieldPath, ...(code !== undefined && { code }) };
}

/** Adds the location of the field to each problem whose resource came from a file. */
export function locateProblems(problems: readonly ResourceProblem[], inForce: InForceByKey): readonly Problem[] {
  return runToEnd(locateProblemsInSteps(problems, inForce));
}

/** The same in steps of one problem each, since a text may have to be parsed again to locate its fields. */
export function* locateProblemsInSteps(
  problems: readonly ResourceProblem[],
  inForce: InForceByKey,
): Steps<readonly Problem[]> {
  const located: Problem[] = [];
  for (const { message, resource, path, fieldPath } of problems) {
    const location = inForce.get(resource)?.locate(fieldPath);
    located.push({
      message,
      resource,
      ...(path !== undefined && { path }),
      ...(location !== undefined && { location }),
    });
    yield;
  }
  return located;
}
