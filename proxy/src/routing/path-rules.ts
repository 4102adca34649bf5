/** The settings for spellings of a path that servers read differently. */

export const pathChoices = {
  /** `%2F` and `%5C`, which servers that decode before they route take for separators. */
  escapedSlashes: ["consistent", "keep", "reject", "decode"],
  /** `;` and what follows it in a segment, which servlet containers leave out. */
  pathParameters: ["consistent", "keep", "reject", "strip"],
  /** `\`, which IIS and everything that parses URLs as browsers do take for `/`. No URI has one (RFC 3986 §2). */
  backslashes: ["reject", "keep", "convert"],
  /** Empty segments: `//`. */
  repeatedSlashes: ["merge", "keep", "reject"],
  /** Upper-case letters, which servers on file systems without case take for lower-case ones. */
  pathCase: ["keep", "lower"],
} as const;

/**
 * `keep` treats the spelling as data, `reject` responds with 400, `decode`, `strip`, `convert`, `merge` and `lower` give it the
 * form in which those servers read it. `consistent` keeps the spelling where every reading leads to the same rule and
 * the same limits, and responds with 400 otherwise.
 */
export type PathRules = { readonly [Choice in keyof typeof pathChoices]: (typeof pathChoices)[Choice][number] };

/** Rejects spellings that could match different rules or limits, and merges empty segments. */
export const defaultPathRules: PathRules = {
  escapedSlashes: "consistent",
  pathParameters: "consistent",
  backslashes: "reject",
  repeatedSlashes: "merge",
  pathCase: "keep",
};
