/**
 * The fields of lines of JSON and of records of OTLP: a list in the setting `--access-log-fields`. `*` stands for all
 * fields of the table in docs/logs.md, `name` for one of them, `-name` takes one out again, and `name=expression` adds
 * a field.
 */
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { suggest } from "@gatewayproxy/runtime/suggest";
import { expressionEnd } from "../../cel/expression-end.ts";
import { type LogFieldName, logFieldKinds } from "../../cel/log-fields.ts";
import { attributeNames } from "./attributes.ts";
import { isLogField, parseLoggedExpression, readField, type ReadValue } from "./logged-expression.ts";

/** A field of each line. */
export interface Field {
  readonly name: string;
  /** Its name as an attribute of a record of OTLP; undefined if it is no attribute. */
  readonly attribute: string | undefined;
  readonly read: ReadValue;
}

/** The list of the default. */
export const allFields = "*";

/** Names that each line has by itself. */
const ownNames: readonly string[] = ["level", "time", "module", "msg"];

/** The fields that the list can name. Each line has the time. */
const defaultNames = Object.keys(logFieldKinds).filter((name): name is LogFieldName => !ownNames.includes(name));

/** The maximum number of fields that a list adds. */
const maxAdded = 64;

const fieldName = /^[A-Za-z][\w.-]{0,63}$/;

/** Parses a list of fields, separated by semicolons or newlines. Each problem names its item. */
export function parseFields(text: string): Result<readonly Field[]> {
  const fields = new Map<string, Field>();
  const problems: Problem[] = [];
  let added = 0;
  for (const [index, item] of itemsOf(text).entries()) {
    const reject = (message: string): void => void problems.push({ message: `item ${index + 1}: ${message}` });
    if (item === allFields) {
      for (const name of defaultNames) fields.set(name, defaultField(name));
    } else if (item.includes("=")) {
      added++;
      const read = parseAdded(item);
      if (read.ok) fields.set(read.value.name, read.value);
      else for (const { message } of read.problems) reject(message);
    } else {
      const isRemoved = item.startsWith("-");
      const name = isRemoved ? item.slice(1).trim() : item;
      if (name === "time" && !isRemoved) continue;
      if (!isLogField(name) || name === "time") reject(unknownField(name));
      else if (isRemoved) fields.delete(name);
      else fields.set(name, defaultField(name));
    }
  }
  if (added > maxAdded) problems.push({ message: `${added} fields are added, at most ${maxAdded} are accepted` });
  return problems.length > 0 ? { ok: false, problems } : { ok: true, value: [...fields.values()] };
}

function itemsOf(text: string): readonly string[] {
  const items: string[] = [];
  for (let start = 0; start < text.length; ) {
    const end = expressionEnd(text, start, ";\n");
    items.push(text.slice(start, end).trim());
    start = end + 1;
  }
  return items.filter((item) => item !== "");
}

function defaultField(name: LogFieldName): Field {
  return { name, attribute: attributeNames[name], read: readField(name) };
}

function parseAdded(item: string): Result<Field> {
  const name = item.slice(0, item.indexOf("=")).trim();
  if (!fieldName.test(name)) {
    const accepted = "accepted are 1 to 64 letters, digits, dots, dashes and underscores that begin with a letter";
    return { ok: false, problems: [{ message: `${JSON.stringify(name)} is not the name of a field; ${accepted}` }] };
  }
  if (ownNames.includes(name)) {
    return { ok: false, problems: [{ message: `each line has a field "${name}" already; choose another name` }] };
  }
  const read = parseLoggedExpression(item.slice(item.indexOf("=") + 1));
  if (read.ok) return { ok: true, value: { name, attribute: name, read: read.value } };
  return { ok: false, problems: read.problems.map(({ message }) => ({ message: `field "${name}": ${message}` })) };
}

function unknownField(name: string): string {
  const suggestion = suggest(name, defaultNames);
  const hint = suggestion === undefined ? "docs/logs.md lists the fields" : `did you mean ${suggestion}?`;
  return `${JSON.stringify(name)} is not a field of the access log; ${hint}; a new field is name=EXPRESSION`;
}
