/** Routes whose rules the proxy answers by itself, each on the path of its name, for tests of what operators are told. */
import { manifests, policyManifest, routeManifest, serviceManifest } from "./gateway.ts";

export interface AnsweringRule {
  readonly name: string;
  readonly status: number;
  readonly manifests: string;
}

/** @param rule what the rule has beside its match, as flow YAML. */
function answering(name: string, status: number, rule: string, ...more: readonly string[]): AnsweringRule {
  const match = `matches: [{ path: { type: PathPrefix, value: /${name} } }]`;
  return {
    name,
    status,
    manifests: manifests(routeManifest(name, [`{ ${[match, rule].filter(Boolean).join(", ")} }`]), ...more),
  };
}

const toNowhere = "backendRefs: [{ name: nowhere, port: 80 }]";
const redirect = "filters: [{ type: RequestRedirect, requestRedirect: { hostname: example.com } }]";

export const answeringRules: readonly AnsweringRule[] = [
  answering("missing", 500, toNowhere),
  answering("none", 500, ""),
  answering("weightless", 500, "backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: b, weight: 0 }]"),
  answering("empty", 503, "backendRefs: [{ name: idle, port: 80 }]", serviceManifest("idle", [])),
  answering("elsewhere", 302, redirect),
  answering(
    "closed",
    503,
    "backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: b }]",
    policyManifest("unreadable", "kind: HTTPRoute, name: closed", ["{ requests: 1, unit: Hours, key: 'nonsense(' }"]),
  ),
];
