/**
 * Routes whose rules get a local reply, each on the path of its name, for tests of the pages and tools of operators.
 */
import { manifests, policyManifest, routeManifest, serviceManifest } from "./gateway.ts";

export interface LocalReplyRule {
  readonly name: string;
  readonly status: number;
  readonly manifests: string;
}

/** @param rule the fields of the rule beside its match, as flow YAML. */
function localReplyRule(name: string, status: number, rule: string, ...more: readonly string[]): LocalReplyRule {
  const match = `matches: [{ path: { type: PathPrefix, value: /${name} } }]`;
  return {
    name,
    status,
    manifests: manifests(routeManifest(name, [`{ ${[match, rule].filter(Boolean).join(", ")} }`]), ...more),
  };
}

const toNowhere = "backendRefs: [{ name: nowhere, port: 80 }]";
const redirect = "filters: [{ type: RequestRedirect, requestRedirect: { hostname: example.com } }]";

export const localReplyRules: readonly LocalReplyRule[] = [
  localReplyRule("missing", 500, toNowhere),
  localReplyRule("none", 500, ""),
  localReplyRule("weightless", 500, "backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: b, weight: 0 }]"),
  localReplyRule("empty", 503, "backendRefs: [{ name: idle, port: 80 }]", serviceManifest("idle", [])),
  localReplyRule("elsewhere", 302, redirect),
  localReplyRule(
    "closed",
    503,
    "backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: b }]",
    policyManifest("unreadable", "kind: HTTPRoute, name: closed", ["{ requests: 1, unit: Hours, key: 'nonsense(' }"]),
  ),
];
