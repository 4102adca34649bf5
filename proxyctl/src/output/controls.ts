/**
 * Escapes characters that a terminal would obey instead of showing them, in texts from clients, resources, files and
 * servers. Sequences of this program carry a mark that no such text can contain.
 */

import { controls, visibleControl } from "@gatewayproxy/runtime/visible-controls";

/** The mark before each sequence of this program. It is random, so that no text from outside can contain it. */
const mark = `\u001b${crypto.randomUUID()}`;

/** A marked sequence: a control sequence (ECMA-48 §5.4), or the end of a line on a terminal in raw mode. */
const marked = String.raw`${mark}(?:\[[?0-9;]*[A-Za-z]|\r\n)`;
const markedSequences = new RegExp(marked, "g");
/** Matches a marked sequence, or one character. */
export const sequenceOrCharacter = new RegExp(`${marked}|[^]`, "gu");

/** Marks a sequence for the terminal, such as `ESC [31m`, so that the outputs of a command keep it. */
export function ownSequence(sequence: `\u001b[${string}` | "\r\n"): string {
  return mark + sequence.replace("\u001b", "");
}

/** Whether the text begins with a sequence of `ownSequence`. */
export function isOwnSequence(text: string): boolean {
  return text.startsWith(mark);
}

/** Removes the sequences of `ownSequence`. */
export function withoutOwnSequences(text: string): string {
  return text.replaceAll(markedSequences, "");
}

/** Makes every control character of a line visible, such as `\x1b` or `\u202e`. */
export function withoutControls(text: string): string {
  return text.replaceAll(controls, visibleControl);
}

/** Escapes the control characters of a JSON text, which can only be inside strings (RFC 8259 §7). */
export function withJsonEscapes(json: string): string {
  return json.replaceAll(controls, (character) => {
    return character === "\n" || character === "\t" ? character : jsonEscape(character);
  });
}

/** Escapes a text for a terminal: as `withoutControls`, except newlines, tabs and the sequences of `ownSequence`. */
export function terminalText(text: string): string {
  let shown = "";
  let end = 0;
  for (const { 0: sequence, index } of text.matchAll(markedSequences)) {
    shown += escapeControls(text.slice(end, index)) + ownText(sequence);
    end = index + sequence.length;
  }
  return shown + escapeControls(text.slice(end));
}

function ownText(sequence: string): string {
  const own = sequence.slice(mark.length);
  return own.startsWith("[") ? `\u001b${own}` : own;
}

function escapeControls(text: string): string {
  return text.replaceAll(controls, (character) => {
    return character === "\n" || character === "\t" ? character : visibleControl(character);
  });
}

function jsonEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
