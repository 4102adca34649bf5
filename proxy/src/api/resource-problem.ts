/**
 * Problems in parsed resources. The code that finds a problem knows the field; only the reader of the text knows its
 * location.
 */
import type { Problem } from "@gatewayproxy/runtime/problem";
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import { type FieldPath, renderPath } from "./issue.ts";
import type { InForceByKey } from "./parse-manifests.ts";
import type { ResourceKey } from "./resource.ts";

/** A problem with a field of a resource. */
export interface ResourceProblem extends Problem {
  readonly resource: ResourceKey;
  readonly fieldPath: FieldPath;
}

/** Builds a problem; its `path` is the rendered field path. */
export function resourceProblem(resource: ResourceKey, fieldPath: FieldPath, message: string): ResourceProblem {
  return { message, resource, ...(fieldPath.length === 0 ? {} : { path: renderPath(fieldPath) }), fieldPath };
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
  for (const { fieldPath, ...problem } of problems) {
    const location = inForce.get(problem.resource)?.locate(fieldPath);
    located.push(location === undefined ? problem : { ...problem, location });
    yield;
  }
  return located;
}
