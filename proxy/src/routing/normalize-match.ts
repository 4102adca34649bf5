/** Paths of matches, in the form in which paths of requests arrive. */
import type { Match } from "../ir/match.ts";
import { normalizePath } from "./normalize-path.ts";
import type { PathRules } from "./path-rules.ts";

/** Gives a path value the form in which request paths arrive, so that `/caf%c3%a9` and `/caf%C3%A9` are one. */
export function normalizeMatch(match: Match, pathRules: PathRules): Match {
  const { kind, value } = match.path;
  if (kind === "RegularExpression") return match;
  const normalized = normalizePath(value, pathRules) ?? value;
  const isSlashed = kind === "PathPrefix" && normalized.length > 1 && normalized.endsWith("/");
  const wanted = isSlashed ? normalized.slice(0, -1) : normalized;
  return wanted === value ? match : { ...match, path: { kind, value: wanted } };
}
