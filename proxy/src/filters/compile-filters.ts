/**
 * Compiles the filters of a rule, together with those of the chosen backend reference, to what the server applies: the
 * authority and path to send, one edit of the request's and one of the response's headers, where to redirect, whom to
 * show a copy.
 */
import type { Cors, Filter, HeaderEdits, Mirror, PathRewrite, Redirect } from "../ir/filter.ts";
import { compileHeaderEdits, type HeaderEditor } from "./header-edits.ts";

/** Each part is absent when no filter asks for it. */
export interface CompiledFilters {
  /** Replaces the authority that is sent upstream. */
  readonly hostname?: string;
  /** For `rewritePath`. */
  readonly path?: PathRewrite;
  readonly editRequest?: HeaderEditor;
  readonly editResponse?: HeaderEditor;
  /** For `redirectLocation`; nothing is forwarded then. */
  readonly redirect?: Redirect;
  readonly mirrors?: readonly Mirror[];
  readonly cors?: Cors;
}

/**
 * `filters` in the order to apply: the rule's, then the backend reference's. The last rewrite of a part counts. Setting
 * the `host` header is a rewrite of the authority; adding to it or removing it has no effect, for a request has one host.
 */
export function compileFilters(filters: readonly Filter[]): CompiledFilters {
  const compiled: { -readonly [Part in keyof CompiledFilters]: CompiledFilters[Part] } = {};
  for (const filter of filters) {
    switch (filter.kind) {
      case "URLRewrite":
        if (filter.hostname !== undefined) compiled.hostname = filter.hostname;
        if (filter.path !== undefined) compiled.path = filter.path;
        break;
      case "RequestHeaderModifier": {
        const host = filter.set.find(({ name }) => name === "host");
        if (host !== undefined) compiled.hostname = host.value;
        chain(compiled, "editRequest", compileHeaderEdits(withoutHost(filter), "request"));
        break;
      }
      case "ResponseHeaderModifier":
        chain(compiled, "editResponse", compileHeaderEdits(filter, "response"));
        break;
      case "RequestRedirect":
        compiled.redirect = filter;
        break;
      case "RequestMirror":
        compiled.mirrors = [...(compiled.mirrors ?? []), filter];
        break;
      case "CORS":
        compiled.cors = filter;
        break;
    }
  }
  return compiled;
}

function withoutHost({ set, add, remove }: HeaderEdits): HeaderEdits {
  return {
    set: set.filter(({ name }) => name !== "host"),
    add: add.filter(({ name }) => name !== "host"),
    remove: remove.filter((name) => name !== "host"),
  };
}

function chain(
  compiled: { editRequest?: HeaderEditor; editResponse?: HeaderEditor },
  part: "editRequest" | "editResponse",
  next: HeaderEditor | undefined,
): void {
  const first = compiled[part];
  if (next === undefined) return;
  compiled[part] =
    first === undefined
      ? next
      : (headers) => {
          first(headers);
          next(headers);
        };
}
