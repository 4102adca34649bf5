/** Finds the end of an expression within a longer text, such as a template. */

const closings: Readonly<Record<string, true>> = { ")": true, "]": true, "}": true };
const openings: Readonly<Record<string, true>> = { "(": true, "[": true, "{": true };

/**
 * Returns the offset of the first character of `terminators` after `start` that is outside of string literals, comments
 * and brackets (CEL language definition, "Syntax"); the length of the text if there is none.
 */
export function expressionEnd(text: string, start: number, terminators: string): number {
  let depth = 0;
  let at = start;
  while (at < text.length) {
    const character = text[at] ?? "";
    if (depth === 0 && terminators.includes(character)) return at;
    if (character === '"' || character === "'") {
      at = literalEnd(text, at, isRaw(text, start, at));
      continue;
    }
    if (text.startsWith("//", at)) {
      const newline = text.indexOf("\n", at);
      at = newline === -1 ? text.length : newline;
      continue;
    }
    if (openings[character] === true) depth++;
    else if (closings[character] === true) depth--;
    at++;
  }
  return text.length;
}

/** Whether the literal at an offset has a prefix with `r`, in which a backslash is an ordinary character. */
function isRaw(text: string, start: number, at: number): boolean {
  const prefix = /(?:^|\W)([rRbB]{1,2})$/.exec(text.slice(Math.max(start, at - 3), at))?.[1] ?? "";
  return prefix.toLowerCase().includes("r");
}

/** Returns the offset after the literal that begins at an offset. */
function literalEnd(text: string, start: number, raw: boolean): number {
  const quote = text[start] ?? "";
  const delimiter = text.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote;
  let at = start + delimiter.length;
  while (at < text.length) {
    if (text.startsWith(delimiter, at)) return at + delimiter.length;
    at += text[at] === "\\" && !raw ? 2 : 1;
  }
  return text.length;
}
