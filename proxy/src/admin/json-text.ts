/** Renders JSON in chunks, so that a large response does not block the event loop. */

/** Minimum characters of a chunk; the last one may be shorter. */
const chunkLength = 16_384;

/** Yields the text of `JSON.stringify(value, undefined, 2)` and a line feed. The value must be plain JSON data. */
export function* jsonChunks(value: unknown): Generator<string, undefined, undefined> {
  const out = { text: "" };
  yield* append(out, value, "\n");
  yield `${out.text}\n`;
}

/** @param lineStart The line feed and indentation of the line on which the value begins. */
function* append(out: { text: string }, value: unknown, lineStart: string): Generator<string, undefined, undefined> {
  if (typeof value !== "object" || value === null) {
    // Undefined only occurs as an item of a list; JSON.stringify writes null for it.
    out.text += value === undefined ? "null" : JSON.stringify(value);
    return;
  }
  const isList = Array.isArray(value);
  const entries: readonly (readonly [string, unknown])[] = isList
    ? value.map((item: unknown) => ["", item] as const)
    : Object.entries(value).filter(([, field]) => field !== undefined);
  const inner = `${lineStart}  `;
  let separator = isList ? "[" : "{";
  for (const [name, member] of entries) {
    out.text += separator + inner;
    if (!isList) out.text += `${JSON.stringify(name)}: `;
    yield* append(out, member, inner);
    separator = ",";
    if (out.text.length < chunkLength) continue;
    yield out.text;
    out.text = "";
  }
  if (entries.length === 0) out.text += isList ? "[]" : "{}";
  else out.text += lineStart + (isList ? "]" : "}");
}
