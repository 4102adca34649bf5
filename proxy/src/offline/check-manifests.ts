/** Validates a set of manifests as the proxy does, without serving them: with the same parser and translation. */
import type { Problem } from "@gatewayproxy/runtime/problem";
import { routeTitle } from "@gatewayproxy/runtime/route-key";
import { type ManifestFile, parseManifests } from "../api/parse-manifests.ts";
import { locateProblems, type ResourceProblem, resourceProblem } from "../api/resource-problem.ts";
import { translate } from "../translate/translate.ts";

/** The result of a validation. */
export interface CheckedManifests {
  /** Number of resources with valid content. */
  readonly resources: number;
  /** With their places; problems of the text come first. */
  readonly problems: readonly Problem[];
  /** Problems with references to objects outside of these manifests, which may exist elsewhere. */
  readonly unseen: readonly Problem[];
  /** Rules that others take precedence over: they are valid, but probably not intended. */
  readonly conflicts: readonly Problem[];
  /** Number of further conflicts. */
  readonly conflictsLeftOut: number;
}

/** Never throws. `references: false` validates each manifest by itself, without references between them. */
export function checkManifests(
  files: readonly ManifestFile[],
  { references }: { readonly references: boolean },
): CheckedManifests {
  const { inForce, resources, problems } = parseManifests(files);
  const translation = references ? translate(resources) : undefined;
  const { unseen, others } = splitProblems(translation?.problems ?? []);
  const conflicts = (translation?.conflicts.found ?? []).map(({ route, fieldPath, message }) =>
    resourceProblem(routeTitle(route), fieldPath, message),
  );
  const valid = [...inForce.values()].filter(({ isRejected }) => !isRejected);
  return {
    resources: valid.length,
    problems: [...problems, ...locateProblems(others, inForce)],
    unseen: locateProblems(unseen, inForce),
    conflicts: locateProblems(conflicts, inForce),
    conflictsLeftOut: translation?.conflicts.leftOut ?? 0,
  };
}

/** Whether a problem is a reference to an object that these manifests do not contain. */
function isMissing({ code }: ResourceProblem): boolean {
  return code === "ReferentNotFound" || code === "ReferenceNotPermitted";
}

/** Separates the problems that objects outside of these manifests may solve. */
function splitProblems(
  problems: readonly ResourceProblem[],
): Readonly<Record<"unseen" | "others", readonly ResourceProblem[]>> {
  if (!problems.some(isMissing)) return { unseen: [], others: problems };
  // A missing object may be the cause of a problem with another code: a listener without a certificate is not served.
  const unseen = problems.filter(({ code }) => code !== undefined);
  return { unseen, others: problems.filter(({ code }) => code === undefined) };
}
