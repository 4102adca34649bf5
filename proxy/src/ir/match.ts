/** Conditions of a rule on a request (Gateway API `HTTPRouteMatch`, `GRPCRouteMatch`). */

/** A match, all parts of which must hold. */
export interface Match {
  readonly path: PathMatch;
  /** Upper case; absent matches every method. */
  readonly method?: string;
  /** Names lower case and distinct. */
  readonly headers: readonly ValueMatch[];
  /** Names as written (they are case-sensitive) and distinct. */
  readonly query: readonly ValueMatch[];
}

/** A condition on the path. */
export type PathMatch =
  | { readonly kind: "Exact"; readonly value: string }
  /** By path segment: `/foo` matches `/foo` and `/foo/bar`, never `/foobar`. No trailing slash, except `/` itself. */
  | { readonly kind: "PathPrefix"; readonly value: string }
  /**
   * RE2 syntax; the whole path must match. It has precedence over prefixes, except with `yieldsToPrefixes`: then only
   * over the prefix `/`.
   */
  | { readonly kind: "RegularExpression"; readonly value: string; readonly yieldsToPrefixes?: true };

/** A condition on a header or query parameter. */
export interface ValueMatch {
  readonly kind: "Exact" | "RegularExpression";
  readonly name: string;
  readonly value: string;
}
