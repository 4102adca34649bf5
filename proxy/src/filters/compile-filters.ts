/**
 * Compiles the filters of a rule, together with those of the chosen backend reference, to what the server applies: the
 * authority and path to send, and one edit of the request's and one of the response's headers.
 */
import type { Filter, HeaderEdits, PathRewrite } from "../ir/filter.ts";
import { compileHeaderEdits, type HeaderEditor } from "./header-edits.ts";

/** Each part is absent when no filter asks for it. */
export interface CompiledFilters {
  /** Replaces the authority that is sent upstream. */
  readonly hostname?: string;
  /** For `rewritePath`. */
  readonly path?: PathRewrite;
  readonly editRequest?: HeaderEditor;
  readonly editResponse?: HeaderEditor;
}

/**
 * `filters` in the order to apply: the rule's, then the backend reference's. The last rewrite of a part counts. Setting
 * the `host` header is a rewrite of the authority; adding to it or removing it has no effect, for a request has one host.
 */
export function compileFilters(filters: readonly Filter[]): CompiledFilters {
  let hostname: string | undefined;
  let path: PathRewrite | undefined;
  const requestEditors: HeaderEditor[] = [];
  const responseEditors: HeaderEditor[] = [];
  for (const filter of filters) {
    switch (filter.kind) {
      case "URLRewrite":
        hostname = filter.hostname ?? hostname;
        path = filter.path ?? path;
        break;
      case "RequestHeaderModifier":
        hostname = filter.set.find(({ name }) => name === "host")?.value ?? hostname;
        pushEditor(requestEditors, withoutHost(filter));
        break;
      case "ResponseHeaderModifier":
        pushEditor(responseEditors, filter);
        break;
    }
  }
  const editRequest = chain(requestEditors);
  const editResponse = chain(responseEditors);
  return {
    ...(hostname !== undefined && { hostname }),
    ...(path !== undefined && { path }),
    ...(editRequest !== undefined && { editRequest }),
    ...(editResponse !== undefined && { editResponse }),
  };
}

function withoutHost({ set, add, remove }: HeaderEdits): HeaderEdits {
  return {
    set: set.filter(({ name }) => name !== "host"),
    add: add.filter(({ name }) => name !== "host"),
    remove: remove.filter((name) => name !== "host"),
  };
}

function pushEditor(editors: HeaderEditor[], edits: HeaderEdits): void {
  const editor = compileHeaderEdits(edits);
  if (editor !== undefined) editors.push(editor);
}

function chain(editors: readonly HeaderEditor[]): HeaderEditor | undefined {
  if (editors.length <= 1) return editors[0];
  return (headers) => {
    for (const edit of editors) edit(headers);
  };
}
