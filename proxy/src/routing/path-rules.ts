/** The settings for spellings of a path that servers read differently. */

export const pathChoices = {
  /** `%2F` and `%5C`, which are separators for servers that decode a path before they route. */
  escapedSlashes: ["consistent", "keep", "reject", "decode"],
  /** `;` and the rest of the segment, which servlet containers remove. */
  pathParameters: ["consistent", "keep", "reject", "strip"],
  /** `\`, which IIS, and all servers that parse URLs like browsers, read as `/`. Not allowed in a URI (RFC 3986 §2). */
  backslashes: ["reject", "keep", "convert"],
  /** Empty segments: `//`. */
  repeatedSlashes: ["merge", "keep", "reject"],
  /** Upper-case letters, which servers on case-insensitive file systems read as lower-case ones. */
  pathCase: ["keep", "lower"],
} as const;

/**
 * `keep` treats the spelling as data. `reject` responds with 400. `decode`, `strip`, `convert`, `merge` and `lower`
 * change the path to the form that those servers read. `consistent` keeps the spelling if every reading leads to the
 * same rule and the same limits, and responds with 400 otherwise.
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
