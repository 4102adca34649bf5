/**
 * Joins texts up to a bounded length. Messages of conditions and logs are made from objects that anyone may write, and a
 * message is kept for each object.
 */

/** The maximum length of a sentence, in characters. Longer ones are cut. */
const longestSentence = 2_048;
/** The maximum length of all sentences together. Kubernetes accepts 32,768 characters in the message of a condition. */
const longestJoined = 4_096;
/** The maximum length of a list of names. */
const longestList = 200;

/** Returns `a, b, c and 61 more`: as many names as fit into 200 characters, at least one. Empty for an empty list. */
export function listSome(names: readonly (string | number)[]): string {
  return joinUpTo(longestList, names, names.length, ", ", " and ");
}

/**
 * Returns `x; y; and 12 more`: each distinct sentence once, cut after 2,048 characters, as many as fit into 4,096, at
 * least one.
 */
export function joinSome(sentences: Iterable<string>): string {
  const distinct = new Set(sentences);
  return joinUpTo(longestJoined, distinct, distinct.size, "; ", "; and ");
}

/** Reads only as many of `texts` as fit: a list of thousands may be named in thousands of messages. */
function joinUpTo(
  longest: number,
  texts: Iterable<string | number>,
  count: number,
  separator: string,
  beforeRest: string,
): string {
  let joined = "";
  let taken = 0;
  for (const whole of texts) {
    const text = shorten(String(whole));
    if (taken > 0 && joined.length + text.length > longest) return `${joined}${beforeRest}${count - taken} more`;
    joined += taken === 0 ? text : separator + text;
    taken++;
  }
  return joined;
}

function shorten(text: string): string {
  return text.length <= longestSentence ? text : `${text.slice(0, longestSentence - 1).toWellFormed()}…`;
}
