/** Compiles header edits of a rule (Gateway API `HTTPHeaderFilter`) to one pass over a flat header array. */
import type { HeaderEdits } from "../ir/filter.ts";

/** Edits an array of names and values in place. The caller owns the array. */
export type HeaderEditor = (headers: string[]) => void;

/**
 * Fields of message framing or of one connection (RFC 9112 §6, RFC 9110 §7.6.1). The proxy writes them itself. An edit
 * of one could contradict the body that follows, so it has no effect.
 */
const framing = new Set([
  "connection",
  "content-length",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Compiles edits; undefined where there is nothing to do. Names are case-insensitive. `set` replaces all fields of the
 * name by one, and `remove` removes those present at that point. `add` appends `,value` to the field of a request,
 * which has one line per name. On a response it appends a line, which is equivalent (RFC 9110 §5.3) and also correct
 * for `set-cookie`.
 */
export function compileHeaderEdits(edits: HeaderEdits, message: "request" | "response"): HeaderEditor | undefined {
  const removed = new Set(edits.remove);
  const appended = [...edits.set, ...edits.add]
    .filter(({ name }) => !removed.has(name) && !framing.has(name))
    .flatMap(({ name, value }) => [name, value]);
  const append = message === "request" ? joinFields : addFields;
  const dropped = new Set([...edits.set.map(({ name }) => name), ...edits.remove].filter((name) => !framing.has(name)));
  if (dropped.size === 0 && appended.length === 0) return undefined;
  return (headers) => {
    if (dropped.size > 0) dropFields(headers, dropped);
    append(headers, appended);
  };
}

/**
 * Replaces the fields of every name in `fields` by those of `fields`. Both are flat; names of `fields` are in lower
 * case.
 */
export function replaceFields(headers: string[], fields: readonly string[]): void {
  dropFields(headers, new Set(fields.filter((_, at) => at % 2 === 0)));
  joinFields(headers, fields);
}

function addFields(headers: string[], fields: readonly string[]): void {
  headers.push(...fields);
}

/** Appends each value to the line of its name, or adds a line where there is none. */
function joinFields(headers: string[], fields: readonly string[]): void {
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    const index = headers.findIndex((field, at) => at % 2 === 0 && field.toLowerCase() === name);
    if (index === -1) headers.push(name, value);
    else headers[index + 1] = joinedValue(name, headers[index + 1] ?? "", value);
  }
}

/**
 * Joins two lines of one name (RFC 9110 §5.3; RFC 9113 §8.2.3 for cookies).
 *
 * @param name lower case
 */
export function joinedValue(name: string, first: string, second: string): string {
  return first + (name === "cookie" ? "; " : ",") + second;
}

/** Removes every field whose name is in `names` (lower case), keeping the order of the others. */
export function dropFields(headers: string[], names: ReadonlySet<string>): void {
  let kept = 0;
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? "";
    if (names.has(name.toLowerCase())) continue;
    if (kept !== at) {
      headers[kept] = name;
      headers[kept + 1] = headers[at + 1] ?? "";
    }
    kept += 2;
  }
  headers.length = kept;
}
