/** `HTTPRouteMatch` (Gateway API v1.7): the conditions of a rule on a request. */
import * as z from "zod";
import { maxPatternSize, patternError, patternSize, sizeError } from "../regex/pattern.ts";
import { headerName, type Immutable, list, strictObject, text } from "./schema.ts";

const pathMatch = strictObject({
  type: z.enum(["Exact", "PathPrefix", "RegularExpression"]).default("PathPrefix"),
  value: text("a path of at most 1024 characters", { min: 0, max: 1024 }).default("/"),
}).superRefine(({ type, value }, context) => {
  const error = type === "RegularExpression" ? tooLarge(value) : pathError(value);
  if (error !== undefined) context.addIssue({ code: "custom", path: ["value"], message: error });
});

function pathError(value: string): string | undefined {
  const accepted = "accepted is an absolute path such as /v1/chat";
  if (!value.startsWith("/")) return `found ${JSON.stringify(value)}, ${accepted}`;
  for (const sequence of ["//", "/./", "/../", "%2f", "%2F", "#"]) {
    if (value.includes(sequence)) return `found ${JSON.stringify(value)}, ${accepted}, without ${sequence}`;
  }
  if (value.endsWith("/..") || value.endsWith("/.")) {
    return `found ${JSON.stringify(value)}, ${accepted}, not ending with /. or /..`;
  }
  return /^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+$/.test(value)
    ? undefined
    : `found ${JSON.stringify(value)}, ${accepted}; other characters must be percent-encoded`;
}

/** Checks only the size, which is cheap. RE2 compiles the pattern once the size of the whole route is known. */
export function tooLarge(pattern: string): string | undefined {
  const error = sizeError(pattern);
  return error === undefined ? undefined : rejection(pattern, error);
}

function rejection(pattern: string, error: string): string {
  const shown = pattern.length > 80 ? `${pattern.slice(0, 80)}…` : pattern;
  return `found ${JSON.stringify(shown)}, accepted is a regular expression of RE2 syntax (${error})`;
}

/** A header or a query parameter. */
export function valueMatch(maxValueLength: number) {
  return strictObject({
    type: z.enum(["Exact", "RegularExpression"]).default("Exact"),
    name: headerName,
    value: text(`text of 1 to ${maxValueLength} characters`, { max: maxValueLength }),
  }).superRefine(({ type, value }, context) => {
    const error = type === "RegularExpression" ? tooLarge(value) : undefined;
    if (error !== undefined) context.addIssue({ code: "custom", path: ["value"], message: error });
  });
}

/** Schema of a match. */
export const httpRouteMatch = strictObject({
  path: pathMatch.default({ type: "PathPrefix", value: "/" }),
  headers: list(valueMatch(4096), { max: 16 }).default([]),
  queryParams: list(valueMatch(1024), { max: 16 }).default([]),
  method: z.enum(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]).optional(),
});

/** The largest sum of the sizes of all regular expressions of a route, in units of `patternSize`. */
export const maxRoutePatternSize = 4_000;

/** A regular expression of a match, with its path in the match. */
export interface MatchPattern {
  readonly value: string;
  readonly path: readonly (string | number)[];
}

/**
 * Returns the check of the regular expressions of a route: first the sum of their sizes, then each one.
 *
 * @param patternsIn the regular expressions of one match.
 */
export function patternCheck<M>(
  patternsIn: (match: M) => readonly MatchPattern[],
): z.core.CheckFn<readonly { readonly matches: readonly M[] }[]> {
  return (context) => {
    const patterns = context.value.flatMap(({ matches }, rule) =>
      matches.flatMap((match, index) =>
        patternsIn(match).map(({ value, path }) => ({ value, path: [rule, "matches", index, ...path] })),
      ),
    );
    // Patterns that are too large by themselves are reported elsewhere.
    const sizes = patterns.map(({ value }) => patternSize(value)).filter((each) => each <= maxPatternSize);
    const size = sizes.reduce((sum, each) => sum + each, 0);
    if (size > maxRoutePatternSize) {
      const message = `found regular expressions with a size of ${size} in all rules together, accepted is at most ${maxRoutePatternSize}`;
      context.issues.push({ code: "custom", input: context.value, message });
      return;
    }
    for (const { value, path } of patterns) {
      const error = sizeError(value) === undefined ? patternError(value) : undefined;
      if (error === undefined) continue;
      context.issues.push({ code: "custom", input: value, path, message: rejection(value, error) });
    }
  };
}

/** Checks the regular expressions of an HTTPRoute. */
export const checkPatterns = patternCheck(patternsOf);

function patternsOf({ path, headers, queryParams }: HttpRouteMatch): readonly MatchPattern[] {
  const patterns = [
    { ...path, path: ["path", "value"] },
    ...headers.map((header, index) => ({ ...header, path: ["headers", index, "value"] })),
    ...queryParams.map((parameter, index) => ({ ...parameter, path: ["queryParams", index, "value"] })),
  ];
  return patterns.filter(({ type }) => type === "RegularExpression");
}

/** A parsed match. */
export type HttpRouteMatch = Immutable<z.output<typeof httpRouteMatch>>;
