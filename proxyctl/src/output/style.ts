/** Terminal styles: a few colours of the terminal's palette, and none for other readers or if the user wants none. */
import { isOwnSequence, ownSequence, sequenceOrCharacter, withoutOwnSequences } from "./controls.ts";

/** Adds a style to a text. */
export type Style = (text: string) => string;

/** Styles by meaning. */
export interface Styles {
  readonly strong: Style;
  readonly faint: Style;
  readonly good: Style;
  readonly warning: Style;
  readonly bad: Style;
  /** The selected row. */
  readonly selected: Style;
}

const plain: Style = (text) => text;

/** Styles that change nothing. */
export const noStyles: Styles = {
  strong: plain,
  faint: plain,
  good: plain,
  warning: plain,
  bad: plain,
  selected: plain,
};

function sgr(on: number, off: number): Style {
  return (text) => `${ownSequence(`\u001b[${on}m`)}${text}${ownSequence(`\u001b[${off}m`)}`;
}

/** Select Graphic Rendition (ECMA-48, 8.3.117). */
export const ansiStyles: Styles = {
  strong: sgr(1, 22),
  faint: sgr(2, 22),
  good: sgr(32, 39),
  warning: sgr(33, 39),
  bad: sgr(31, 39),
  selected: sgr(7, 27),
};

/** Returns the styles for a stream. `NO_COLOR` with any value but an empty one disables them (no-color.org). */
export function stylesFor(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): Styles {
  const isDisabled = (env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb";
  return stream.isTTY === true && !isDisabled ? ansiStyles : noStyles;
}

/** Returns the width on the screen of a text with styles. */
export function visibleLength(text: string): number {
  return Array.from(withoutOwnSequences(text)).length;
}

/** Cuts a text with styles to `width` columns, with an ellipsis at the end. All styles stay. */
export function clip(text: string, width: number): string {
  if (visibleLength(text) <= width) return text;
  let remaining = width;
  return text.replaceAll(sequenceOrCharacter, (part) => {
    if (isOwnSequence(part)) return part;
    remaining -= 1;
    return remaining > 0 ? part : remaining === 0 ? "…" : "";
  });
}

/** Cuts a text to `width` columns, with an ellipsis in its middle. */
export function withoutMiddle(text: string, width: number): string {
  const characters = Array.from(text);
  if (characters.length <= width) return text;
  const head = Math.floor((width - 1) / 2);
  return `${characters.slice(0, head).join("")}…${characters.slice(characters.length - (width - 1 - head)).join("")}`;
}
