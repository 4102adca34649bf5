/**
 * Joins texts up to a bounded length. Messages of conditions and logs are made from objects that anyone may write, and
 * a message is kept for each object.
 */

/** The maximum length of a sentence, in characters. Longer ones are truncated. */
const maxSentenceLength = 2_048;
/** The maximum length of all sentences together. Kubernetes accepts 32,768 characters in the message of a condition. */
const maxJoinedLength = 4_096;
/** The maximum length of a list of names. */
const maxListLength = 200;

/** Returns `a, b, c and 61 more`: as many names as fit into 200 characters, at least one. Empty for an empty list. */
export function listSome(names: readonly (string | number)[]): string {
  return joinUpTo(maxListLength, names, names.length, ", ", " and ");
}

/**
 * Returns `x; y; and 12 more`: each distinct sentence once, truncated to 2,048 characters, as many as fit into 4,096,
 * at least one.
 */
export function joinSome(sentences: Iterable<string>): string {
  const distinct = new Set(sentences);
  return joinUpTo(maxJoinedLength, distinct, distinct.size, "; ", "; and ");
}

/** Reads only as many of `texts` as fit: a list of thousands may be named in thousands of messages. */
function joinUpTo(
  maxLength: number,
  texts: Iterable<string | number>,
  count: number,
  separator: string,
  beforeRest: string,
): string {
  let joined = "";
  let added = 0;
  for (const whole of texts) {
    const text = shorten(String(whole));
    if (added > 0 && joined.length + text.length > maxLength) return `${joined}${beforeRest}${count - added} more`;
    joined += added === 0 ? text : separator + text;
    added++;
  }
  return joined;
}

function shorten(text: string): string {
  return text.length <= maxSentenceLength ? text : `${text.slice(0, maxSentenceLength - 1).toWellFormed()}…`;
}
