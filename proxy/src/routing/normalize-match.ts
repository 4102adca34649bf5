/** Normalises the paths of matches like the paths of requests. */
import type { Match } from "../ir/match.ts";
import { normalizePath } from "./normalize-path.ts";
import type { PathRules } from "./path-rules.ts";

/** Normalises the path of a match like the path of a request, so that `/caf%c3%a9` and `/caf%C3%A9` are equal. */
export function normalizeMatch(match: Match, pathRules: PathRules): Match {
  const { kind, value } = match.path;
  if (kind === "RegularExpression") return match;
  const normalized = normalizePath(value, pathRules) ?? value;
  const isSlashed = kind === "PathPrefix" && normalized.length > 1 && normalized.endsWith("/");
  const path = isSlashed ? normalized.slice(0, -1) : normalized;
  return path === value ? match : { ...match, path: { kind, value: path } };
}
