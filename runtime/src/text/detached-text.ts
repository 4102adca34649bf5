/** Returns the text in memory of its own. A part of a text, as `slice` returns it, keeps the whole text in memory. */
export function detachedText(text: string): string {
  // V8 writes a joined text to new memory when it is cut.
  return `\n${text}`.slice(1);
}
