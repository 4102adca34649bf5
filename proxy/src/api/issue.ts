/**
 * Messages for the issues of a schema: the value that was found, the values that are accepted, and the likely
 * correction.
 */
import { redacted, redactText } from "@gatewayproxy/runtime/redaction";
import { suggest } from "@gatewayproxy/runtime/suggest";
import type * as z from "zod";

/** An error in one field. */
export interface FieldError {
  /** The path from the root of the resource: `["spec", "listeners", 0, "port"]`. */
  readonly path: FieldPath;
  /** The message: what was found and what is accepted, without the path. */
  readonly message: string;
  /** True where the name of the field is the error, not its value, so that locations point at the name. */
  readonly isUnknownField: boolean;
}

/** The names and indexes that lead to a field. */
export type FieldPath = readonly (string | number)[];

/** Renders a path: `spec.listeners[0].port`, `metadata.labels["app.kubernetes.io/name"]`. */
export function renderPath(path: FieldPath): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else if (!/^[A-Za-z_][\w-]*$/.test(part)) text += `[${JSON.stringify(part)}]`;
    else text += text === "" ? part : `.${part}`;
  }
  return text;
}

/**
 * Converts an issue of zod.
 *
 * @param showsValues false for a kind that holds secrets: the message then has only the type of the value.
 */
export function describeIssue(issue: z.core.$ZodIssue, showsValues: boolean): FieldError {
  // JSON and YAML have no symbols as field names.
  const path = issue.path.filter((part) => typeof part !== "symbol");
  const isUnknownField = issue.code === "custom" && issue.params?.["unknownField"] !== undefined;
  return { path, message: messageOf(issue, path, showsValues && !mayBeCredential(path)), isUnknownField };
}

/**
 * Whether a field is the value of a header or query parameter, in a match or a filter. Such values may be credentials.
 */
function mayBeCredential(path: FieldPath): boolean {
  const holdsValues = (part: string | number) => /^(?:headers|queryParams|\w+HeaderModifier)$/.test(String(part));
  return path.at(-1) === "value" && path.some(holdsValues);
}

function messageOf(issue: z.core.$ZodIssue, path: FieldPath, showsValues: boolean): string {
  switch (issue.code) {
    case "custom":
      return customMessage(issue, path, showsValues);
    case "invalid_type":
      return contrast(issue.input, typeNames[issue.expected] ?? issue.expected, showsValues);
    case "invalid_value":
      return choice(issue.input, issue.values.map(String), showsValues);
    case "invalid_union":
      return discriminatorMessage(issue, showsValues);
    case "too_small":
      return `found ${lengthOf(issue.input)}, accepted are at least ${issue.minimum}`;
    case "too_big":
      return `found ${lengthOf(issue.input)}, accepted are at most ${issue.maximum}`;
    // The schemas of this package do not raise these; zod's message is correct.
    case "unrecognized_keys":
    case "invalid_format":
    case "invalid_key":
    case "invalid_element":
    case "not_multiple_of":
      return issue.message;
  }
}

const typeNames: Readonly<Record<string, string>> = {
  array: "a list",
  object: "a map of fields",
  record: "a map of fields",
  boolean: "true or false",
  string: "text",
};

/**
 * Issues of `schema.ts` have the accepted values as a parameter; rules across several fields have a complete message.
 */
function customMessage(issue: z.core.$ZodIssueCustom, path: FieldPath, showsValues: boolean): string {
  const fields: unknown = issue.params?.["unknownField"];
  if (Array.isArray(fields)) return unknownFieldMessage(String(path.at(-1)), fields.map(String));
  const accepted: unknown = issue.params?.["accepted"];
  if (typeof accepted === "string") return contrast(issue.input, accepted, showsValues);
  return issue.message;
}

function unknownFieldMessage(field: string, accepted: readonly string[]): string {
  return `unknown field ${quote(field)}, accepted ${accepted.length === 1 ? "is" : "are"} ${accepted.join(", ")}${hint(field, accepted)}`;
}

function discriminatorMessage(issue: z.core.$ZodIssueInvalidUnion, showsValues: boolean): string {
  const { discriminator, input } = issue;
  const options: readonly unknown[] = "options" in issue && Array.isArray(issue.options) ? issue.options : [];
  if (discriminator === undefined || typeof input !== "object" || input === null) return issue.message;
  const found: unknown = Object.entries(input).find(([key]) => key === discriminator)?.[1];
  return choice(found, options.map(String), showsValues);
}

function choice(found: unknown, accepted: readonly string[], showsValues: boolean): string {
  const words = accepted.map(quote).join(", ");
  const meant = typeof found === "string" && accepted.length > 1 ? hint(found, accepted) : "";
  return contrast(found, accepted.length === 1 ? words : `one of ${words}`, showsValues) + meant;
}

function contrast(found: unknown, accepted: string, showsValues: boolean): string {
  if (found === undefined) return `missing, required is ${accepted}`;
  return `found ${showsValues ? describeValue(found) : describeType(found)}, accepted is ${accepted}`;
}

function hint(found: string, accepted: readonly string[]): string {
  const meant = suggest(found, accepted);
  return meant === undefined ? "" : `; did you mean ${quote(meant)}?`;
}

function describeValue(value: unknown): string {
  if (typeof value === "string") {
    const shown = redactText(value);
    return shown === redacted ? redacted : quote(shown);
  }
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return describeType(value);
}

/** Describes the type of a value, without the value. */
export function describeType(value: unknown): string {
  if (value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  return valueTypes[typeof value] ?? typeof value;
}

const valueTypes: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  boolean: "a truth value",
  object: "a map of fields",
};

/** Quotes a text as JSON, so that blanks and control characters are visible, and cuts it after 80 characters. */
function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

function lengthOf(value: unknown): string {
  if (Array.isArray(value)) return `${value.length} items`;
  return "too little or too much";
}
