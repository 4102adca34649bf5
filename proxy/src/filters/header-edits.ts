/** Header edits of a rule (Gateway API `HTTPHeaderFilter`), compiled to one pass over a flat header array. */
import type { HeaderEdits } from "../ir/filter.ts";

/** Edits names and values in turn, in place. The caller owns the array. */
export type HeaderEditor = (headers: string[]) => void;

/**
 * Fields that frame a message or belong to one connection (RFC 9112 §6, RFC 9110 §7.6.1). The proxy writes them itself;
 * an edit of one would let a rule disagree with the body that follows, so it has no effect.
 */
const FRAMING = new Set([
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
 * Returns `undefined` when there is nothing to do. Names compare without case; `set` replaces all fields of the name by
 * one, `remove` takes what is there by then. `add` appends `,value` to the field of a request, which has one line per
 * name; on a response it appends a line, which is the same (RFC 9110 §5.3) and right for `set-cookie` too.
 */
export function compileHeaderEdits(edits: HeaderEdits, message: "request" | "response"): HeaderEditor | undefined {
  const removed = new Set(edits.remove);
  const appended = [...edits.set, ...edits.add]
    .filter(({ name }) => !removed.has(name) && !FRAMING.has(name))
    .flatMap(({ name, value }) => [name, value]);
  const append = message === "request" ? joinFields : addFields;
  const dropped = new Set([...edits.set.map(({ name }) => name), ...edits.remove].filter((name) => !FRAMING.has(name)));
  if (dropped.size === 0 && appended.length === 0) return undefined;
  return (headers) => {
    if (dropped.size > 0) dropFields(headers, dropped);
    append(headers, appended);
  };
}

/** Replaces the fields of every name in `fields` by those of `fields`. Both are flat; names of `fields` in lower case. */
export function replaceFields(headers: string[], fields: readonly string[]): void {
  dropFields(headers, new Set(fields.filter((_, at) => at % 2 === 0)));
  joinFields(headers, fields);
}

function addFields(headers: string[], fields: readonly string[]): void {
  headers.push(...fields);
}

/** Adds each value to the line that the name has, or a line where it has none. */
function joinFields(headers: string[], fields: readonly string[]): void {
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    const place = headers.findIndex((field, index) => index % 2 === 0 && field.toLowerCase() === name);
    if (place === -1) headers.push(name, value);
    else headers[place + 1] = joinedValue(name, headers[place + 1] ?? "", value);
  }
}

/** Two lines of one name as one value (RFC 9110 §5.3; RFC 9113 §8.2.3 for cookies). @param name lower case */
export function joinedValue(name: string, first: string, second: string): string {
  return first + (name === "cookie" ? "; " : ",") + second;
}

/** Removes every field whose name is in `names` (lower case), keeping the order of the others. */
function dropFields(headers: string[], names: ReadonlySet<string>): void {
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
