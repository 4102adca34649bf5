/** Translates `HTTPRouteMatch`: normalizes names and adds defaults. */
import { trimEnd } from "@gatewayproxy/runtime/trim-end";
import type { HttpRouteMatch } from "../../api/http-route.ts";
import type { Match, PathMatch, ValueMatch } from "../../ir/match.ts";

/** Translates a match. */
export function translateMatch({ path, method, headers, queryParams }: HttpRouteMatch): Match {
  return {
    path: translatePath(path),
    ...(method === undefined ? {} : { method }),
    headers: distinctMatches(headers, (name) => name.toLowerCase()),
    query: distinctMatches(queryParams, (name) => name),
  };
}

function translatePath({ type, value }: HttpRouteMatch["path"]): PathMatch {
  if (type !== "PathPrefix") return { kind: type, value };
  // "/foo/" and "/foo" are the same prefix, which ends at the end of a segment.
  return { kind: type, value: trimEnd(value, /\//) || "/" };
}

/**
 * Returns matches with normalised names. Of several with the same name, only the first applies, as the API requires.
 */
export function distinctMatches(
  matches: HttpRouteMatch["headers"],
  normalise: (name: string) => string,
): readonly ValueMatch[] {
  const byName = new Map<string, ValueMatch>();
  for (const { type, name, value } of matches) {
    const key = normalise(name);
    if (!byName.has(key)) byName.set(key, { kind: type, name: key, value });
  }
  return [...byName.values()];
}
