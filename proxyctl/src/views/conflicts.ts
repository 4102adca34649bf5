/** The conflicts of `proxyctl config all`: rules that others take precedence over, unreachable ones first. */
import { routeTitle } from "@gatewayproxy/runtime/route-key";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";

/** Returns one line per rule, and one for those that the dump leaves out. */
export function conflictLines({ conflicts }: Pick<ConfigDump, "conflicts">): readonly string[] {
  const { rules, leftOut, unexaminedHostnames } = conflicts;
  const sorted = rules.toSorted((a, b) => Number(a.isReachable) - Number(b.isReachable));
  return [
    ...sorted.map(({ route, message }) => `${routeTitle(route)}: ${message}`),
    ...(leftOut === 0 ? [] : [`and ${leftOut} more rules`]),
    ...(unexaminedHostnames === 0 ? [] : [`not examined: ${unexaminedHostnames} hostnames with too many matches`]),
  ];
}
