/** What the proxy would say of a set of manifests, without serving them: the same parser, the same translation. */
import type { Problem } from "@gatewayproxy/runtime/problem";
import { type ManifestFile, parseManifests } from "../api/parse-manifests.ts";
import { locateProblems } from "../api/resource-problem.ts";
import { translate } from "../translate/translate.ts";

export interface CheckedManifests {
  /** Resources without a fault in their text. */
  readonly resources: number;
  /** With their places; those of the texts first. */
  readonly problems: readonly Problem[];
}

/** Never throws. `references: false` looks at each text by itself and not at what they say of each other. */
export function checkManifests(
  files: readonly ManifestFile[],
  { references }: { readonly references: boolean },
): CheckedManifests {
  const { inForce, resources, problems } = parseManifests(files);
  const found = references ? locateProblems(translate(resources).problems, inForce) : [];
  const sound = [...inForce.values()].filter(({ isRefused }) => !isRefused);
  return { resources: sound.length, problems: [...problems, ...found] };
}
