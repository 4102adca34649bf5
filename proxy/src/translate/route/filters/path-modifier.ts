/** `HTTPPathModifier`, which URLRewrite and RequestRedirect have in common. */
import type { PathModifier } from "../../../api/http-route-filter.ts";
import type { PathRewrite } from "../../../ir/filter.ts";

export function translatePathModifier(path: PathModifier): PathRewrite {
  switch (path.type) {
    case "ReplaceFullPath":
      return { kind: path.type, value: path.replaceFullPath };
    case "ReplacePrefixMatch":
      return { kind: path.type, value: path.replacePrefixMatch };
  }
}
