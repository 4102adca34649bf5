/** Filter URLRewrite. */
import type { UrlRewrite } from "../../../api/http-route-filter.ts";
import type { Filter } from "../../../ir/filter.ts";
import { translatePathModifier } from "./path-modifier.ts";

export function translateUrlRewrite({ hostname, path }: UrlRewrite): Filter {
  return {
    kind: "URLRewrite",
    ...(hostname === undefined ? {} : { hostname }),
    ...(path === undefined ? {} : { path: translatePathModifier(path) }),
  };
}
