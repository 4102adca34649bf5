/** JSON in pieces, so that a large answer is neither made nor sent in one turn of the event loop. */

/** Characters of a piece, at least; the last one may be shorter. */
const pieceLength = 16_384;

/**
 * The text that `JSON.stringify(value, undefined, 2)` gives, and a line feed. The value is plain data: objects, lists and
 * what JSON has besides.
 */
export function* jsonPieces(value: unknown): Generator<string, undefined, undefined> {
  const out = { text: "" };
  yield* append(out, value, "\n");
  yield `${out.text}\n`;
}

/** @param lineStart line feed and indentation of the line on which the value begins. */
function* append(out: { text: string }, value: unknown, lineStart: string): Generator<string, undefined, undefined> {
  if (typeof value !== "object" || value === null) {
    // Only items of lists come as undefined; JSON.stringify makes null of them.
    out.text += value === undefined ? "null" : JSON.stringify(value);
    return;
  }
  const isList = Array.isArray(value);
  const entries: readonly (readonly [string, unknown])[] = isList
    ? value.map((item: unknown) => ["", item] as const)
    : Object.entries(value).filter(([, field]) => field !== undefined);
  const inner = `${lineStart}  `;
  let separator = isList ? "[" : "{";
  for (const [name, each] of entries) {
    out.text += separator + inner;
    if (!isList) out.text += `${JSON.stringify(name)}: `;
    yield* append(out, each, inner);
    separator = ",";
    if (out.text.length < pieceLength) continue;
    yield out.text;
    out.text = "";
  }
  if (entries.length === 0) out.text += isList ? "[]" : "{}";
  else out.text += lineStart + (isList ? "]" : "}");
}
