/** What a rule does to a request or a response on its way (Gateway API `HTTPRouteFilter`). */

export type Filter =
  | ({ readonly kind: "RequestHeaderModifier" } & HeaderEdits)
  | ({ readonly kind: "ResponseHeaderModifier" } & HeaderEdits)
  | { readonly kind: "URLRewrite"; readonly hostname?: string; readonly path?: PathRewrite };

/** Applied in this order: set, add, remove. Names lower case. */
export interface HeaderEdits {
  readonly set: readonly HeaderField[];
  readonly add: readonly HeaderField[];
  readonly remove: readonly string[];
}

export interface HeaderField {
  readonly name: string;
  readonly value: string;
}

export type PathRewrite =
  | { readonly kind: "ReplaceFullPath"; readonly value: string }
  /** Replaces the prefix that the rule's match found; the query stays. */
  | { readonly kind: "ReplacePrefixMatch"; readonly value: string };
