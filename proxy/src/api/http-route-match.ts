/** `HTTPRouteMatch` (Gateway API v1.6): the conditions that a rule puts on a request. */
import * as z from "zod";
import { headerName, type Immutable, list, regularExpressionFault, strictObject, text } from "./schema.ts";

const pathMatch = strictObject({
  type: z.enum(["Exact", "PathPrefix", "RegularExpression"]).default("PathPrefix"),
  value: text("a path of at most 1024 characters", { min: 0, max: 1024 }).default("/"),
}).superRefine(({ type, value }, context) => {
  const fault = type === "RegularExpression" ? patternFault(value) : pathFault(value);
  if (fault !== undefined) context.addIssue({ code: "custom", path: ["value"], message: fault });
});

function pathFault(value: string): string | undefined {
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

function patternFault(pattern: string): string | undefined {
  const fault = regularExpressionFault(pattern);
  if (fault === undefined) return undefined;
  return `found ${JSON.stringify(pattern)}, accepted is a regular expression of RE2 syntax (${fault})`;
}

/** A header or a query parameter. */
function valueMatch(maxValueLength: number) {
  return strictObject({
    type: z.enum(["Exact", "RegularExpression"]).default("Exact"),
    name: headerName,
    value: text(`text of 1 to ${maxValueLength} characters`, { max: maxValueLength }),
  }).superRefine(({ type, value }, context) => {
    const fault = type === "RegularExpression" ? patternFault(value) : undefined;
    if (fault !== undefined) context.addIssue({ code: "custom", path: ["value"], message: fault });
  });
}

export const httpRouteMatch = strictObject({
  path: pathMatch.default({ type: "PathPrefix", value: "/" }),
  headers: list(valueMatch(4096), { max: 16 }).default([]),
  queryParams: list(valueMatch(1024), { max: 16 }).default([]),
  method: z.enum(["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]).optional(),
});

export type HttpRouteMatch = Immutable<z.output<typeof httpRouteMatch>>;
