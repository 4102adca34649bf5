/** The parts of a page under docs/ that are made from code. A test holds each there and writes it anew on `vitest -u`. */

/**
 * The page with `content` (which ends with a newline) between its `<!-- begin NAME -->` and `<!-- end NAME -->` lines.
 * Throws when the page does not have the two.
 */
export function withSection(page: string, name: string, content: string): string {
  const [begin, end] = [`<!-- begin ${name} -->\n`, `<!-- end ${name} -->`];
  const from = page.indexOf(begin);
  const to = page.indexOf(end, from);
  if (from === -1 || to === -1) throw new Error(`the page has no section between ${begin.trim()} and ${end}`);
  return `${page.slice(0, from + begin.length)}\n${content}\n${page.slice(to)}`;
}
