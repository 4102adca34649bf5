/** Escapes characters that a terminal or a reader of lines obeys instead of showing them. */

/**
 * C0 and C1 controls and DEL (ECMA-48 §5), the line and paragraph separators, and the controls of bidirectional text
 * (Unicode UAX #9 §2), which change the order in which the rest of a line is shown.
 */
export const controls = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Returns an escape that shows a control character: `\x1b` or `\u202e`. */
export function visibleControl(character: string): string {
  const code = character.charCodeAt(0).toString(16);
  return character > "\u00ff" ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
}
