/**
 * Removes the characters at the end of a text that match `character`, a pattern of one character. Linear in the removed
 * length: `replace(/x+$/, "")` is quadratic, since a search begins at each character.
 */
export function trimEnd(text: string, character: RegExp): string {
  let end = text.length;
  while (end > 0 && character.test(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
