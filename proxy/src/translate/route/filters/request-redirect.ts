/** Filter RequestRedirect. */
import type { RequestRedirect } from "../../../api/http-route-filter.ts";
import type { Filter } from "../../../ir/filter.ts";
import { translatePathModifier } from "./path-modifier.ts";

export function translateRequestRedirect({ statusCode, scheme, hostname, port, path }: RequestRedirect): Filter {
  return {
    kind: "RequestRedirect",
    statusCode,
    ...(scheme === undefined ? {} : { scheme }),
    ...(hostname === undefined ? {} : { hostname }),
    ...(port === undefined ? {} : { port }),
    ...(path === undefined ? {} : { path: translatePathModifier(path) }),
  };
}
