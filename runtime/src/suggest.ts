/** Finds the word that was probably meant: "Minute" for "Minutes", "burts" for "burst". */

/**
 * The candidate nearest to `found`, or undefined when none is near enough to be a slip of the finger: at most one
 * edit (insertion, deletion, substitution, swap of neighbours) in three characters, or the beginning or end of the word.
 * Case counts for nothing.
 */
export function suggest(found: string, candidates: readonly string[]): string | undefined {
  // Longer words are prose, not a misspelt name, and would make the table below large.
  if (found.length > 64) return undefined;
  const allowed = Math.max(1, Math.floor(found.length / 3));
  let nearest: string | undefined;
  let nearestEdits = allowed + 1;
  for (const candidate of candidates) {
    const edits = distance(found.toLowerCase(), candidate.toLowerCase(), allowed);
    if (edits < nearestEdits) {
      nearest = candidate;
      nearestEdits = edits;
    }
  }
  return nearest;
}

/** Names that `suggestName` looks at: a hint must cost next to nothing where thousands of objects name what is not there. */
const maxNames = 1_000;

/**
 * ` (did you mean default/chat?)`, or nothing, to follow the name of an object that is not there: the first of the names that
 * is one edit away (insertion, deletion, substitution, swap of neighbours). It looks at 1,000 names at most, in time that is
 * linear in their length.
 *
 * @param found such as `default/chta`. Names of other namespaces are not suggested: they may be none of the reader's business.
 */
export function suggestName(found: string, names: Iterable<string>): string {
  let looked = 0;
  for (const name of names) {
    if (looked++ === maxNames) break;
    if (isOneEdit(found, name) && namespaceOf(found) === namespaceOf(name)) return ` (did you mean ${name}?)`;
  }
  return "";
}

function namespaceOf(name: string): string {
  return name.slice(0, name.indexOf("/") + 1);
}

function isOneEdit(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1 || a === b) return false;
  const shorter = Math.min(a.length, b.length);
  let at = 0;
  while (at < shorter && a[at] === b[at]) at++;
  if (a.length > b.length) return a.slice(at + 1) === b.slice(at);
  if (a.length < b.length) return a.slice(at) === b.slice(at + 1);
  const isSwap = a[at] === b[at + 1] && a[at + 1] === b[at] && a.slice(at + 2) === b.slice(at + 2);
  return isSwap || a.slice(at + 1) === b.slice(at + 1);
}

/** "match" is near enough to "matches" and "Prefix" to "PathPrefix", whatever is missing; a nearer word comes first. */
function distance(found: string, candidate: string, allowed: number): number {
  const edits = editDistance(found, candidate);
  const isPart = found.length >= 3 && (candidate.startsWith(found) || candidate.endsWith(found));
  return isPart ? Math.min(edits, allowed + 0.5) : edits;
}

/** Edits that turn `a` into `b` (optimal string alignment: a swap of two neighbours is one edit). */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = at(previous, column - 1) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const isSwap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const swapped = isSwap ? at(beforePrevious, column - 2) + 1 : replaced;
      current.push(Math.min(at(previous, column) + 1, at(current, column - 1) + 1, replaced, swapped));
    }
    beforePrevious = previous;
    previous = current;
  }
  return at(previous, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
