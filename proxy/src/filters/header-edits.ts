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
 * one, `add` leaves the existing ones and appends a field line (equal to appending `,value` by RFC 9110 §5.3, and right
 * for `set-cookie` too), `remove` takes what is there by then.
 */
export function compileHeaderEdits(edits: HeaderEdits): HeaderEditor | undefined {
  const removed = new Set(edits.remove);
  const appended = [...edits.set, ...edits.add]
    .filter(({ name }) => !removed.has(name) && !FRAMING.has(name))
    .flatMap(({ name, value }) => [name, value]);
  const dropped = new Set([...edits.set.map(({ name }) => name), ...edits.remove].filter((name) => !FRAMING.has(name)));
  if (dropped.size === 0 && appended.length === 0) return undefined;
  return (headers) => {
    if (dropped.size > 0) dropFields(headers, dropped);
    headers.push(...appended);
  };
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
