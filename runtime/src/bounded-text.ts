/**
 * Text about what may be many, in a bounded length: messages of conditions and logs are made from objects that anyone may
 * write, and are kept for each of them.
 */

/** A longer sentence is cut. */
const longestSentence = 2_048;
/** Of all sentences together. Kubernetes takes 32,768 characters in the message of a condition. */
const longestJoined = 4_096;
/** Names are listed up to this length. */
const longestList = 200;

/** `a, b, c and 61 more`: as many as fit into 200 characters, at least one. Empty for none. */
export function listSome(names: readonly (string | number)[]): string {
  return joinUpTo(longestList, names, names.length, ", ", " and ");
}

/** `x; y; and 12 more`: each sentence once, of at most 2,048 characters, as many as fit into 4,096, at least one. */
export function joinSome(sentences: Iterable<string>): string {
  const distinct = new Set(sentences);
  return joinUpTo(longestJoined, distinct, distinct.size, "; ", "; and ");
}

/** Reads no more of `texts` than fit: a list of thousands may be named in thousands of messages. */
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
