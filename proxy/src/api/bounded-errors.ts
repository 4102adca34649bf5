/**
 * The errors of an object that are kept. An object can have tens of thousands, such as a value of each match of a
 * route, and every process keeps the errors of every rejected object.
 */
import type * as z from "zod";
import { describeIssue, type FieldError, type FieldPath } from "./issue.ts";

/** Errors that are described. */
const maxErrors = 20;
/** Further ones are described if they are the first of a rule or another item of a list of the spec. */
const maxItems = 64;

/**
 * Describes the first errors, and the first one of each item, such as a rule; a last error has the number of the
 * others.
 */
export function boundedErrors(issues: readonly z.core.$ZodIssue[], showsValues: boolean): readonly FieldError[] {
  const items = new Set<string>();
  const errors: FieldError[] = [];
  for (const issue of issues) {
    const item = itemOf(issue.path);
    if (errors.length >= maxErrors && (items.has(item) || items.size >= maxItems)) continue;
    items.add(item);
    errors.push(describeIssue(issue, showsValues));
  }
  const rest = issues.length - errors.length;
  if (rest === 0) return errors;
  const message = `${rest} further ${rest === 1 ? "error is" : "errors are"} not listed`;
  return [...errors, { path: [], message, isUnknownField: false }];
}

/** `spec.rules.3` for any field of this rule. */
function itemOf(path: readonly PropertyKey[]): string {
  return path.slice(0, 3).map(String).join(".");
}

/** A place with an error, whether or not the error is described. */
export interface ErrorPlace {
  readonly path: FieldPath;
  readonly isUnknownField: boolean;
}

/** Returns the places of all errors. They are too many to be kept. */
export function placesOf(issues: readonly z.core.$ZodIssue[]): readonly ErrorPlace[] {
  return issues.map((issue) => ({
    path: issue.path.filter((part) => typeof part !== "symbol"),
    isUnknownField: issue.code === "custom" && issue.params?.["unknownField"] !== undefined,
  }));
}
