/**
 * Which filters are served: one case each, with a file of its own beside this one. To serve another, add its form to
 * `ir/filter.ts`, its file here, and its case below. RequestMirror, which refers to a backend, is `filter-list.ts`'s.
 */
import type { HttpRouteFilter } from "../../../api/http-route-filter.ts";
import type { Filter } from "../../../ir/filter.ts";
import { translateCors } from "./cors.ts";
import { translateHeaderModifier } from "./header-modifier.ts";
import { translateRequestRedirect } from "./request-redirect.ts";
import { translateUrlRewrite } from "./url-rewrite.ts";

/** The filter as the data path runs it, or undefined where we do not serve its type. */
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
