/** Filter URLRewrite. */
import type { UrlRewrite } from "../../api/http-route-filter.ts";
import type { Filter, PathRewrite } from "../../ir/filter.ts";

export function translateUrlRewrite({ hostname, path }: UrlRewrite): Filter {
  return {
    kind: "URLRewrite",
    ...(hostname === undefined ? {} : { hostname }),
    ...(path === undefined ? {} : { path: translatePath(path) }),
  };
}

function translatePath(path: NonNullable<UrlRewrite["path"]>): PathRewrite {
  switch (path.type) {
    case "ReplaceFullPath":
      return { kind: path.type, value: path.replaceFullPath };
    case "ReplacePrefixMatch":
      return { kind: path.type, value: path.replacePrefixMatch };
  }
}
