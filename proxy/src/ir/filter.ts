/** Changes of a rule to requests and responses (Gateway API `HTTPRouteFilter`). */

/** A filter, by its type in the API. */
export type Filter =
  | ({ readonly kind: "RequestHeaderModifier" } & HeaderEdits)
  | ({ readonly kind: "ResponseHeaderModifier" } & HeaderEdits)
  | { readonly kind: "URLRewrite"; readonly hostname?: string; readonly path?: PathRewrite }
  | ({ readonly kind: "RequestRedirect" } & Redirect)
  | ({ readonly kind: "RequestMirror" } & Mirror)
  | ({ readonly kind: "CORS" } & Cors);

/** Applied in this order: set, add, remove. Names are in lower case and unique. */
export interface HeaderEdits {
  readonly set: readonly HeaderField[];
  readonly add: readonly HeaderField[];
  readonly remove: readonly string[];
}

/** A header field. */
export interface HeaderField {
  readonly name: string;
  readonly value: string;
}

/** A rewrite of the path (Gateway API `HTTPPathModifier`). */
export type PathRewrite =
  | { readonly kind: "ReplaceFullPath"; readonly value: string }
  /** Replaces the prefix that the match of the rule found; the query stays. */
  | { readonly kind: "ReplacePrefixMatch"; readonly value: string };

/** A redirect. Absent parts are those of the request. */
export interface Redirect {
  readonly statusCode: 301 | 302 | 303 | 307 | 308;
  readonly scheme?: "http" | "https";
  readonly hostname?: string;
  /** Absent: the well-known port of `scheme`, or the listener's where `scheme` is absent too. */
  readonly port?: number;
  readonly path?: PathRewrite;
}

/** Mirrors `numerator` of every `denominator` requests to a backend whose responses are discarded. */
export interface Mirror {
  /** Key of a backend of the snapshot. */
  readonly backend: string;
  readonly numerator: number;
  /** At least 1 and not below `numerator`. */
  readonly denominator: number;
}

/** The scripts of other origins that may use the responses of the rule (Fetch standard, CORS protocol). */
export interface Cors {
  readonly origins: OriginRule;
  readonly allowCredentials: boolean;
  /** Absent: the methods that need no permission (GET, HEAD, POST) and no others. */
  readonly methods?: WordRule;
  /** Request headers beyond those that need no permission. */
  readonly headers?: WordRule;
  /** Response headers that scripts may read beyond those that they always may. */
  readonly exposeHeaders?: WordRule;
  readonly maxAgeSeconds: number;
}

/** `*`, or the words as in the route. */
export type WordRule = { readonly kind: "any" } | { readonly kind: "listed"; readonly words: readonly string[] };

/** Every origin, or those that a pattern covers. */
export type OriginRule =
  | { readonly kind: "any" }
  | { readonly kind: "listed"; readonly patterns: readonly OriginPattern[] };

/** A pattern of origins, in lower case, without the default port of the scheme. */
export interface OriginPattern {
  /** `http://` or `https://` */
  readonly scheme: string;
  /** An exact host, or a suffix that begins with a dot or is empty and covers everything that ends with it. */
  readonly host: { readonly kind: "exact" | "suffix"; readonly value: string };
  /** `:8443`; empty for the default port. */
  readonly port: string;
}
