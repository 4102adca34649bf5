/** Finds the word that was probably meant: "Minute" for "Minutes", "burst" for "burts". */

/**
 * Returns the candidate nearest to `found`, or undefined if none is near enough to be a typing error: at most one edit
 * (insertion, deletion, substitution, swap of neighbours) per three characters, or the start or end of the word. The
 * case is ignored.
 */
export function suggest(found: string, candidates: readonly string[]): string | undefined {
  // Longer texts are not misspelt names, and would make the table below large.
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

/** The number of names that `suggestName` compares: thousands of objects may name a missing object. */
const maxNames = 1_000;

/**
 * Returns ` (did you mean default/chat?)`, or an empty text, to follow the name of a missing object: the first of the
 * names that is one edit away (insertion, deletion, substitution, swap of neighbours). It compares at most 1,000 names,
 * in time linear in their length.
 *
 * @param found such as `default/chta`. Names in other namespaces are never suggested, since the reader may not be
 *   allowed to see them.
 */
export function suggestName(found: string, names: Iterable<string>): string {
  let compared = 0;
  for (const name of names) {
    if (compared++ === maxNames) break;
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

/**
 * Returns the edits, fewer if `found` is the start or end of the candidate: "match" of "matches", "Prefix" of
 * "PathPrefix".
 */
function distance(found: string, candidate: string, allowed: number): number {
  const edits = editDistance(found, candidate);
  const isPart = found.length >= 3 && (candidate.startsWith(found) || candidate.endsWith(found));
  return isPart ? Math.min(edits, allowed + 0.5) : edits;
}

/** Returns the edits that turn `a` into `b` (optimal string alignment: a swap of two neighbours is one edit). */
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
