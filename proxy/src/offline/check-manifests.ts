/** Validates a set of manifests as the proxy does, without serving them: with the same parser and translation. */
import type { Problem } from "@gatewayproxy/runtime/problem";
import { type ManifestFile, parseManifests } from "../api/parse-manifests.ts";
import { locateProblems, resourceProblem } from "../api/resource-problem.ts";
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
  const found = locateProblems(translation?.problems ?? [], inForce);
  const conflicts = (translation?.conflicts.found ?? []).map(({ route, fieldPath, message }) =>
    resourceProblem(`HTTPRoute ${route}`, fieldPath, message),
  );
  const unseen = unseenAmong(found);
  const valid = [...inForce.values()].filter(({ isRejected: isRejected }) => !isRejected);
  const others = [...problems, ...found.filter((problem) => !unseen.includes(problem))];
  return {
    resources: valid.length,
    problems: others,
    unseen,
    conflicts: locateProblems(conflicts, inForce),
    conflictsLeftOut: translation?.conflicts.leftOut ?? 0,
  };
}

/** Messages of the translation about a missing object or grant. */
const missing = /\bdoes not exist\b|\bno ReferenceGrant there permits it\b/;
/** Messages about consequences of a missing object: listeners without a certificate, routes without a Gateway. */
const consequence = /\bno listener\b.* is programmed\b|\bis not programmed\b|\bno Gateway of this controller accepts\b/;

function unseenAmong(problems: readonly Problem[]): readonly Problem[] {
  const some = problems.filter(({ message }) => missing.test(message));
  if (some.length === 0) return [];
  return problems.filter((problem) => some.includes(problem) || consequence.test(problem.message));
}
