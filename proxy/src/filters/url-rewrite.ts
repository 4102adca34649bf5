/** Path rewriting (Gateway API `HTTPPathModifier`). The query is always kept. */
import type { PathRewrite } from "../ir/filter.ts";
import type { Match } from "../ir/match.ts";

/**
 * Returns the target to send for `target`, a normalized path with query that meets `match`. `ReplacePrefixMatch`
 * follows the table of the API: slashes between the new prefix and the rest are not doubled, a trailing slash of the
 * request is kept, and an empty result is `/`. With another type of match, which the API forbids and translation
 * rejects, the path is unchanged.
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
  // The rest begins with a slash or is empty, since a prefix ends at the end of a segment; prefix `/` ends before its
  // slash.
  const rest = path.slice(withoutTrailingSlash(match.path.value).length);
  return withoutTrailingSlash(rewrite.value) + rest;
}

function withoutTrailingSlash(path: string): string {
  return path.endsWith("/") ? path.slice(0, -1) : path;
}

function withLeadingSlash(path: string): string {
  return path.startsWith("/") ? path : `/${path}`;
}
