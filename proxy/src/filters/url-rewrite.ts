/** Path rewriting (Gateway API `HTTPPathModifier`). The query is kept in every case. */
import type { PathRewrite } from "../ir/filter.ts";
import type { Match } from "../ir/match.ts";

/**
 * Returns the target to send for `target`, a normalised path with its query that `match` (as routing returned it) holds
 * for. `ReplacePrefixMatch` follows the table in the API: slashes between the new prefix and the rest never double, a
 * trailing slash of the request stays, and an empty result is `/`. With a match that is not a prefix, which the API
 * forbids and translation refuses, the path stays.
 */
export function rewritePath(rewrite: PathRewrite, match: Match, target: string): string {
  const queryStart = target.indexOf("?");
  const path = queryStart === -1 ? target : target.slice(0, queryStart);
  const query = queryStart === -1 ? "" : target.slice(queryStart);
  return withLeadingSlash(rewrittenPath(rewrite, match, path)) + query;
}

function rewrittenPath(rewrite: PathRewrite, match: Match, path: string): string {
  if (rewrite.kind === "ReplaceFullPath") return rewrite.value;
  if (match.path.kind !== "PathPrefix") return path;
  // Begins with a slash or is empty, since a prefix ends where a segment does; the prefix `/` ends before its slash.
  const rest = path.slice(withoutTrailingSlash(match.path.value).length);
  return withoutTrailingSlash(rewrite.value) + rest;
}

function withoutTrailingSlash(path: string): string {
  return path.endsWith("/") ? path.slice(0, -1) : path;
}

function withLeadingSlash(path: string): string {
  return path.startsWith("/") ? path : `/${path}`;
}
