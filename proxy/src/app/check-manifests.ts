/** What the proxy would say of a set of manifests, without serving them: the same parser, the same translation. */
import type { Problem } from "@gatewayproxy/runtime/problem";
import { type ManifestFile, parseManifests } from "../api/parse-manifests.ts";
import { locateProblems, resourceProblem } from "../api/resource-problem.ts";
import { translate } from "../translate/translate.ts";

export interface CheckedManifests {
  /** Resources without a fault in their text. */
  readonly resources: number;
  /** With their places; those of the texts first. */
  readonly problems: readonly Problem[];
  /** Problems that resources beside these manifests may solve: they name what is not here. */
  readonly unseen: readonly Problem[];
  /** Rules that others go before: what is written is served, and probably not meant. */
  readonly conflicts: readonly Problem[];
  /** Conflicts beyond them. */
  readonly conflictsLeftOut: number;
}

/** Never throws. `references: false` looks at each text by itself and not at what they say of each other. */
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
  const sound = [...inForce.values()].filter(({ isRefused }) => !isRefused);
  const ours = [...problems, ...found.filter((problem) => !unseen.includes(problem))];
  return {
    resources: sound.length,
    problems: ours,
    unseen,
    conflicts: locateProblems(conflicts, inForce),
    conflictsLeftOut: translation?.conflicts.leftOut ?? 0,
  };
}

/** How the translation says that what a reference names, or the grant that permits it, is not there. */
const missing = /\bdoes not exist\b|\bno ReferenceGrant there permits it\b/;
/** What it says of others when something is missing: listeners without a certificate, routes without a Gateway. */
const consequence = /\bno listener\b.* is programmed\b|\bis not programmed\b|\bis accepted by no Gateway of ours\b/;

function unseenAmong(problems: readonly Problem[]): readonly Problem[] {
  const some = problems.filter(({ message }) => missing.test(message));
  if (some.length === 0) return [];
  return problems.filter((problem) => some.includes(problem) || consequence.test(problem.message));
}
