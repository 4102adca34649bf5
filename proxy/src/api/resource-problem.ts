/** Problems that are found in parsed resources: the finder knows the field, only the text's reader knows the place. */
import type { Problem } from "@gatewayproxy/runtime/problem";
import { atOnce, type Steps } from "@gatewayproxy/runtime/steps";
import { type FieldPath, renderPath } from "./issue.ts";
import type { InForceByKey } from "./parse-manifests.ts";
import type { ResourceKey } from "./resource.ts";

/** A problem with a field of a resource. */
export interface ResourceProblem extends Problem {
  readonly resource: ResourceKey;
  readonly fieldPath: FieldPath;
}

/** Builds a problem; `path` is the field path as people read it. */
export function resourceProblem(resource: ResourceKey, fieldPath: FieldPath, message: string): ResourceProblem {
  return { message, resource, ...(fieldPath.length === 0 ? {} : { path: renderPath(fieldPath) }), fieldPath };
}

/** Adds to each problem where its field stands, as far as its resource came from a file. */
export function locateProblems(problems: readonly ResourceProblem[], inForce: InForceByKey): readonly Problem[] {
  return atOnce(locateProblemsInSteps(problems, inForce));
}

/** The same, in steps of one problem each: a text may have to be parsed again to tell where its fields stand. */
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
