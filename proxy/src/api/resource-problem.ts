/** Problems that are found in parsed resources: the finder knows the field, only the text's reader knows the place. */
import type { Problem } from "@gatewayproxy/runtime/problem";
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
  return problems.map(({ fieldPath, ...problem }) => {
    const location = inForce.get(problem.resource)?.locate(fieldPath);
    return location === undefined ? problem : { ...problem, location };
  });
}
