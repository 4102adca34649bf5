/** What a rule does to a request or a response on its way (Gateway API `HTTPRouteFilter`). */

export type Filter =
  | ({ readonly kind: "RequestHeaderModifier" } & HeaderEdits)
  | ({ readonly kind: "ResponseHeaderModifier" } & HeaderEdits)
  | { readonly kind: "URLRewrite"; readonly hostname?: string; readonly path?: PathRewrite }
  | ({ readonly kind: "RequestRedirect" } & Redirect)
  | ({ readonly kind: "RequestMirror" } & Mirror)
  | ({ readonly kind: "CORS" } & Cors);

/** Applied in this order: set, add, remove. Names lower case; no name stands twice. */
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

/** What is absent stays as the client asked for it. */
export interface Redirect {
  readonly statusCode: 301 | 302 | 303 | 307 | 308;
  readonly scheme?: "http" | "https";
  readonly hostname?: string;
  /** Absent: the well-known port of `scheme`, or the listener's where `scheme` is absent too. */
  readonly port?: number;
  readonly path?: PathRewrite;
}

/** A copy of `numerator` of every `denominator` requests goes to a backend whose answers nobody sees. */
export interface Mirror {
  /** Key of a backend of the snapshot. */
  readonly backend: string;
  readonly numerator: number;
  /** At least 1 and not below `numerator`. */
  readonly denominator: number;
}

/** Which scripts of other origins may use what the rule serves (Fetch standard, CORS protocol). */
export interface Cors {
  readonly origins: OriginRule;
  readonly allowCredentials: boolean;
  /** Absent: the methods that need no permission (GET, HEAD, POST) and no others. */
  readonly methods?: WordRule;
  /** Request headers, beyond those that need no permission. */
  readonly headers?: WordRule;
  /** Response headers that scripts may read, beyond those that they always may. */
  readonly exposeHeaders?: WordRule;
  readonly maxAgeSeconds: number;
}

/** `*`, or the words as written. */
export type WordRule = { readonly kind: "any" } | { readonly kind: "listed"; readonly words: readonly string[] };

/** Every origin, or those that one of the patterns covers. */
export type OriginRule =
  | { readonly kind: "any" }
  | { readonly kind: "listed"; readonly patterns: readonly OriginPattern[] };

/** Lower case, without the default port of the scheme. */
export interface OriginPattern {
  /** `http://` or `https://` */
  readonly scheme: string;
  /** A host covers itself; a suffix that starts with a dot, or is empty, whatever stands before it. */
  readonly host: { readonly kind: "exact" | "suffix"; readonly value: string };
  /** `:8443`; empty for the default port. */
  readonly port: string;
}
