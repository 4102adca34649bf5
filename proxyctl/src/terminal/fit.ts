/** Cuts, pads or wraps text to a number of columns. Texts have no styles yet. */
import { withoutMiddle } from "../output/style.ts";

/** Pads or cuts a text to exactly `width` columns, with an ellipsis if it is cut. */
export function fit(text: string, width: number): string {
  if (width <= 0) return "";
  const characters = Array.from(text);
  if (characters.length > width) return `${characters.slice(0, width - 1).join("")}…`;
  return text + " ".repeat(width - characters.length);
}

/**
 * Cuts a text to `width` columns: the longest word loses its middle first, so that a long name or URL costs no other
 * word. Names keep their ends, which distinguish them. The result may be longer if there are many short words.
 */
export function squeeze(text: string, width: number): string {
  const words = text.split(" ");
  for (;;) {
    const over = Array.from(words.join(" ")).length - width;
    if (over <= 0) break;
    const [at, length] = longest(words);
    // A shorter name could not be recognized.
    if (length <= minNameLength) break;
    words[at] = withoutMiddle(words[at] ?? "", Math.max(minNameLength, length - over));
  }
  return words.join(" ");
}

const minNameLength = 12;

function longest(words: readonly string[]): readonly [at: number, length: number] {
  const lengths = words.map((word) => Array.from(word).length);
  const length = Math.max(...lengths);
  return [lengths.indexOf(length), length];
}

/** Splits into lines of at most `width` columns; continued lines keep the indentation. */
export function wrap(line: string, width: number): readonly string[] {
  const characters = Array.from(line);
  if (characters.length <= width || width < 8) return [line];
  const indent = " ".repeat(Math.min(line.length - line.trimStart().length + 2, Math.floor(width / 2)));
  const [first, rest] = [characters.slice(0, width).join(""), characters.slice(width).join("")];
  return [first, ...wrap(indent + rest, width)];
}
