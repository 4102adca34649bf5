/**
 * Compiles the filters of a rule and of the selected backendRef: authority and path to send, one edit of the request
 * headers and one of the response headers, the redirect, and the mirrors.
 */
import type { Cors, Filter, HeaderEdits, Mirror, PathRewrite, Redirect } from "../ir/filter.ts";
import { compileHeaderEdits, type HeaderEditor } from "./header-edits.ts";

/** The compiled filters. A part is absent where no filter has it. */
export interface CompiledFilters {
  /** Replaces the authority that is sent upstream. */
  readonly hostname?: string;
  /** For `rewritePath`. */
  readonly path?: PathRewrite;
  readonly editRequest?: HeaderEditor;
  readonly editResponse?: HeaderEditor;
  /** For `redirectLocation`; the request is then not forwarded. */
  readonly redirect?: Redirect;
  readonly mirrors?: readonly Mirror[];
  readonly cors?: Cors;
}

/**
 * Compiles filters in order: those of the rule, then those of the backendRef. The last rewrite of a part wins. Setting
 * the `host` header is a rewrite of the authority; adding to it or removing it has no effect, since a request has one
 * host.
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
