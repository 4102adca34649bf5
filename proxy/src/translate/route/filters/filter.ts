/**
 * Translates each supported filter by a case and a file of this folder. To support another filter, add its form to
 * `ir/filter.ts`, its file here, and its case below. `filter-list.ts` translates RequestMirror, which refers to a
 * backend.
 */
import type { HttpRouteFilter } from "../../../api/http-route-filter.ts";
import type { Filter } from "../../../ir/filter.ts";
import { translateCors } from "./cors.ts";
import { translateHeaderModifier } from "./header-modifier.ts";
import { translateRequestRedirect } from "./request-redirect.ts";
import { translateUrlRewrite } from "./url-rewrite.ts";

/** Returns the filter in the form of the snapshot; undefined if its type is not supported. */
export function translateFilter(filter: Exclude<HttpRouteFilter, { type: "RequestMirror" }>): Filter | undefined {
  switch (filter.type) {
    case "RequestHeaderModifier":
      return { kind: filter.type, ...translateHeaderModifier(filter.requestHeaderModifier) };
    case "ResponseHeaderModifier":
      return { kind: filter.type, ...translateHeaderModifier(filter.responseHeaderModifier) };
    case "URLRewrite":
      return translateUrlRewrite(filter.urlRewrite);
    case "RequestRedirect":
      return translateRequestRedirect(filter.requestRedirect);
    case "CORS":
      return translateCors(filter.cors);
    case "ExtensionRef":
      return undefined;
  }
}
