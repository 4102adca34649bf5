/** Text cut, filled or broken to a number of columns. Texts are plain: styles come after. */

/** Exactly `width` columns; what is too long ends with an ellipsis. */
export function fit(text: string, width: number): string {
  if (width <= 0) return "";
  const characters = Array.from(text);
  if (characters.length > width) return `${characters.slice(0, width - 1).join("")}…`;
  return text + " ".repeat(width - characters.length);
}

/** Lines of at most `width` columns; continued ones keep the indentation of their line. */
export function wrap(line: string, width: number): readonly string[] {
  const characters = Array.from(line);
  if (characters.length <= width || width < 8) return [line];
  const indent = " ".repeat(Math.min(line.length - line.trimStart().length + 2, Math.floor(width / 2)));
  const [first, rest] = [characters.slice(0, width).join(""), characters.slice(width).join("")];
  return [first, ...wrap(indent + rest, width)];
}
