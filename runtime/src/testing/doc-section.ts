/** Sections of docs pages that are generated from code. Tests compare them, and rewrite them with `vitest -u`. */

/**
 * Returns the page with `content`, which ends with a newline, between its `<!-- begin NAME -->` and `<!-- end NAME -->`
 * lines. Throws if the page does not contain both.
 */
export function withSection(page: string, name: string, content: string): string {
  const [begin, end] = [`<!-- begin ${name} -->\n`, `<!-- end ${name} -->`];
  const from = page.indexOf(begin);
  const to = page.indexOf(end, from);
  if (from === -1 || to === -1) throw new Error(`the page has no section between ${begin.trim()} and ${end}`);
  return `${page.slice(0, from + begin.length)}\n${content}\n${page.slice(to)}`;
}
