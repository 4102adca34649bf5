/**
 * The cases of a policy or a route, as objects for a cluster and the status that each must get. All of them are in one
 * namespace with one Gateway, whose listener `open` has the hosts `*.open.test`; each has its own hosts.
 */
/** The usage of each response of the backend of all routes. */
export const tokensPerResponse = 10;

/** An expected condition: `True Attached`, `False TargetNotFound`. */
export type Outcome = `${"True" | "False"} ${string}`;

export interface Scenario {
  readonly name: string;
  /** YAML; `NS` is replaced by the namespace. */
  readonly manifests: string;
  /**
   * Of a policy: the condition Attached for each target, in order; of a route: conditions of its entry for our Gateway.
   */
  readonly expected: PolicyOutcome | RouteOutcome;
}

export interface PolicyOutcome {
  readonly kind: "policy";
  readonly accepted: Outcome;
  readonly attached: readonly Outcome[];
  /** Requests that the limit must count: it allows one. */
  readonly limited?: readonly { readonly host: string; readonly path?: string }[];
  /** Requests that no limit may deny, however many. */
  readonly free?: readonly { readonly host: string; readonly path?: string }[];
}

export interface RouteOutcome {
  readonly kind: "route";
  readonly conditions: Readonly<Record<string, Outcome>>;
}

const backend = "{group: gatewayproxy.dev, kind: Backend, name: echo}";

interface RouteOptions {
  readonly parents?: string;
  readonly host?: string;
  readonly rules?: string;
  readonly namespace?: string;
}

function route(name: string, options: RouteOptions = {}): string {
  const { parents = "{name: web, sectionName: open}", host = `${name}.open.test`, namespace = "NS" } = options;
  const rules = options.rules ?? `{backendRefs: [${backend}]}`;
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: ${name}, namespace: ${namespace}}
spec:
  parentRefs: [${parents}]
  hostnames: [${host}]
  rules: [${rules}]
---`;
}

const oneAMinute = "{requests: 1, unit: Minutes}";

function policy(name: string, targets: readonly string[], rateLimit = `local: [${oneAMinute}]`): string {
  const refs = targets.map((target) => {
    const [kind = "", object = "", section] = target.split("/");
    const rest = section === undefined ? "" : `, sectionName: ${section}`;
    return `{group: gateway.networking.k8s.io, kind: ${kind}, name: ${object}${rest}}`;
  });
  return `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: {name: ${name}, namespace: NS}
spec:
  targetRefs: [${refs.join(", ")}]
  traffic: {rateLimit: {${rateLimit}}}
---`;
}

/** With a filter of an unknown kind. */
const badRule = `{name: bad, matches: [{path: {type: PathPrefix, value: /bad}}], filters: [{type: ExtensionRef, extensionRef: {group: example.test, kind: Thing, name: t}}], backendRefs: [${backend}]}`;
const goodRule = `{name: good, matches: [{path: {type: PathPrefix, value: /good}}], backendRefs: [${backend}]}`;
const twoRules = `${goodRule}, {name: other, backendRefs: [${backend}]}`;

const attached = (...limited: readonly { readonly host: string; readonly path?: string }[]): PolicyOutcome => ({
  kind: "policy",
  accepted: "True Valid",
  attached: ["True Attached"],
  limited,
});

const unattached = (reason: "TargetNotFound" | "Pending" | "NotApplicable"): PolicyOutcome => ({
  kind: "policy",
  accepted: "True Valid",
  attached: [`False ${reason}`],
});

/** A policy with this name on the route with this name. */
function onOwnRoute(name: string, rateLimit?: string): string {
  return route(name) + policy(name, [`HTTPRoute/${name}`], rateLimit);
}

const global = (service: string) =>
  `global: {backendRef: {name: ${service}, port: 8081}, domain: d, descriptors: [{entries: [{name: a, expression: source.address}]}]}`;

const policies: readonly Scenario[] = [
  { name: "on-route", manifests: onOwnRoute("on-route"), expected: attached({ host: "on-route.open.test" }) },
  {
    name: "on-rule",
    manifests: route("on-rule", { rules: twoRules }) + policy("on-rule", ["HTTPRoute/on-rule/good"]),
    expected: {
      ...attached({ host: "on-rule.open.test", path: "/good" }),
      free: [{ host: "on-rule.open.test", path: "/else" }],
    },
  },
  {
    name: "on-two-routes",
    manifests:
      route("first-of-two") +
      route("second-of-two") +
      policy("on-two-routes", ["HTTPRoute/first-of-two", "HTTPRoute/second-of-two"]),
    expected: {
      ...attached({ host: "first-of-two.open.test" }, { host: "second-of-two.open.test" }),
      attached: ["True Attached", "True Attached"],
    },
  },
  {
    name: "stricter",
    manifests:
      onOwnRoute("stricter") + policy("laxer", ["HTTPRoute/stricter"], "local: [{requests: 5, unit: Minutes}]"),
    expected: attached({ host: "stricter.open.test" }),
  },
  {
    name: "laxer-beside-stricter",
    manifests:
      route("beside") +
      policy("beside", ["HTTPRoute/beside"]) +
      policy("laxer-beside-stricter", ["HTTPRoute/beside"], "local: [{requests: 5, unit: Minutes}]"),
    expected: attached({ host: "beside.open.test" }),
  },
  {
    name: "several-entries",
    manifests: onOwnRoute("several-entries", `local: [{requests: 9, unit: Hours}, ${oneAMinute}]`),
    expected: attached({ host: "several-entries.open.test" }),
  },
  {
    name: "shadow",
    manifests: onOwnRoute("shadow", "local: [{requests: 1, unit: Minutes, mode: Shadow}]"),
    expected: { ...attached(), free: [{ host: "shadow.open.test" }] },
  },
  {
    name: "keyed",
    manifests: onOwnRoute("keyed", "local: [{requests: 1, unit: Minutes, key: request.host}]"),
    expected: attached({ host: "keyed.open.test" }),
  },
  {
    name: "tokens",
    manifests: onOwnRoute("tokens", `local: [{tokens: ${tokensPerResponse}, unit: Minutes}]`),
    expected: attached({ host: "tokens.open.test" }),
  },
  {
    name: "on-listener",
    manifests:
      route("on-listener", { parents: "{name: web, sectionName: capped}", host: "x.capped.test" }) +
      policy("on-listener", ["Gateway/web/capped"]),
    expected: attached({ host: "x.capped.test" }),
  },
  {
    name: "missing-route",
    manifests: policy("missing-route", ["HTTPRoute/nowhere"]),
    expected: unattached("TargetNotFound"),
  },
  {
    name: "missing-rule",
    manifests: route("missing-rule", { rules: twoRules }) + policy("missing-rule", ["HTTPRoute/missing-rule/none"]),
    expected: { ...unattached("TargetNotFound"), free: [{ host: "missing-rule.open.test" }] },
  },
  {
    name: "missing-gateway",
    manifests: policy("missing-gateway", ["Gateway/nowhere"]),
    expected: unattached("TargetNotFound"),
  },
  {
    name: "missing-listener",
    manifests: policy("missing-listener", ["Gateway/web/nowhere"]),
    expected: unattached("TargetNotFound"),
  },
  {
    name: "route-of-a-foreign-gateway",
    manifests:
      route("of-foreign", { parents: "{name: foreign}" }) +
      policy("route-of-a-foreign-gateway", ["HTTPRoute/of-foreign"]),
    expected: unattached("Pending"),
  },
  {
    name: "foreign-gateway",
    manifests: policy("foreign-gateway", ["Gateway/foreign"]),
    expected: unattached("Pending"),
  },
  {
    name: "route-of-no-gateway",
    manifests: route("of-none", { parents: "" }) + policy("route-of-no-gateway", ["HTTPRoute/of-none"]),
    expected: unattached("Pending"),
  },
  {
    name: "route-of-no-listener",
    manifests:
      route("of-no-listener", { host: "elsewhere.test" }) +
      policy("route-of-no-listener", ["HTTPRoute/of-no-listener"]),
    expected: unattached("Pending"),
  },
  {
    name: "requests-of-tcp-listener",
    manifests: policy("requests-of-tcp-listener", ["Gateway/web/raw"]),
    expected: unattached("NotApplicable"),
  },
  {
    name: "unsupported-rule",
    manifests:
      route("unsupported-rule", { rules: `${badRule}, ${goodRule}` }) +
      policy("unsupported-rule", ["HTTPRoute/unsupported-rule/bad"]),
    expected: { ...unattached("Pending"), free: [{ host: "unsupported-rule.open.test", path: "/good" }] },
  },
  {
    name: "partly-served-route",
    manifests:
      route("partly-served-route", { rules: `${badRule}, ${goodRule}` }) +
      policy("partly-served-route", ["HTTPRoute/partly-served-route"]),
    expected: attached({ host: "partly-served-route.open.test", path: "/good" }),
  },
  {
    name: "one-of-two-targets",
    manifests: route("one-of-two") + policy("one-of-two-targets", ["HTTPRoute/one-of-two", "HTTPRoute/nowhere"]),
    expected: { ...attached({ host: "one-of-two.open.test" }), attached: ["True Attached", "False TargetNotFound"] },
  },
  {
    name: "ours-and-foreign-targets",
    manifests: route("ours-and") + policy("ours-and-foreign-targets", ["HTTPRoute/ours-and", "Gateway/foreign"]),
    expected: { ...attached({ host: "ours-and.open.test" }), attached: ["True Attached", "False Pending"] },
  },
  {
    name: "global-without-service",
    manifests: onOwnRoute("global-without-service", global("nowhere")),
    expected: { kind: "policy", accepted: "False Invalid", attached: ["False Pending"] },
  },
  {
    name: "local-and-global-without-service",
    manifests: onOwnRoute("local-and-global-without-service", `local: [${oneAMinute}], ${global("nowhere")}`),
    expected: {
      ...attached({ host: "local-and-global-without-service.open.test" }),
      accepted: "True PartiallyValid",
    },
  },
  {
    name: "route-of-ours-and-a-foreign-gateway",
    manifests:
      route("of-both", { parents: "{name: web, sectionName: open}, {name: foreign}" }) +
      policy("route-of-ours-and-a-foreign-gateway", ["HTTPRoute/of-both"]),
    expected: attached({ host: "of-both.open.test" }),
  },
];

const routeOf = (name: string, options: RouteOptions, conditions: RouteOutcome["conditions"]): Scenario => ({
  name,
  manifests: route(name, options),
  expected: { kind: "route", conditions },
});

const accepted = "True Accepted";
const resolved = "True ResolvedRefs";

const routes: readonly Scenario[] = [
  routeOf("plain", {}, { Accepted: accepted, ResolvedRefs: resolved }),
  routeOf("of-whole-gateway", { parents: "{name: web}" }, { Accepted: accepted, ResolvedRefs: resolved }),
  routeOf(
    "backend-missing",
    { rules: "{backendRefs: [{name: nowhere, port: 80}]}" },
    { Accepted: accepted, ResolvedRefs: "False BackendNotFound" },
  ),
  routeOf(
    "backend-of-unknown-kind",
    { rules: "{backendRefs: [{group: example.test, kind: Thing, name: t}]}" },
    { Accepted: accepted, ResolvedRefs: "False InvalidKind" },
  ),
  routeOf(
    "backend-not-permitted",
    { rules: "{backendRefs: [{name: shared, namespace: NS-other, port: 80}]}" },
    { Accepted: accepted, ResolvedRefs: "False RefNotPermitted" },
  ),
  routeOf(
    "backend-permitted",
    { rules: "{backendRefs: [{name: granted, namespace: NS-other, port: 80}]}" },
    { Accepted: accepted, ResolvedRefs: resolved },
  ),
  routeOf(
    "wrong-section",
    { parents: "{name: web, sectionName: nowhere}" },
    { Accepted: "False NoMatchingParent", ResolvedRefs: resolved },
  ),
  routeOf(
    "wrong-port",
    { parents: "{name: web, port: 9}" },
    { Accepted: "False NoMatchingParent", ResolvedRefs: resolved },
  ),
  routeOf(
    "wrong-host",
    { host: "elsewhere.test" },
    { Accepted: "False NoMatchingListenerHostname", ResolvedRefs: resolved },
  ),
  routeOf(
    "from-elsewhere",
    {
      namespace: "NS-other",
      parents: "{name: web, namespace: NS, sectionName: open}",
      rules: "{backendRefs: [{name: shared, port: 80}]}",
    },
    { Accepted: "False NotAllowedByListeners", ResolvedRefs: resolved },
  ),
  routeOf(
    "partly-invalid",
    { rules: `${badRule}, ${goodRule}` },
    { Accepted: accepted, ResolvedRefs: resolved, PartiallyInvalid: "True UnsupportedValue" },
  ),
  routeOf("wholly-invalid", { rules: badRule }, { Accepted: "False UnsupportedValue", ResolvedRefs: resolved }),
  routeOf(
    "of-tcp-listener",
    { parents: "{name: web, sectionName: raw}" },
    { Accepted: "False NotAllowedByListeners", ResolvedRefs: resolved },
  ),
  routeOf(
    "one-backend-of-two",
    { rules: `{backendRefs: [${backend}, {name: nowhere, port: 80}]}` },
    { Accepted: accepted, ResolvedRefs: "False BackendNotFound" },
  ),
];

export const scenarios: readonly Scenario[] = [...policies, ...routes];

/** The objects that all scenarios share. */
export function stage(gatewayClass: string, port: number, backendPort: number): string {
  return `
apiVersion: v1
kind: Namespace
metadata: {name: NS-other}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: NS}
spec:
  gatewayClassName: ${gatewayClass}
  listeners:
  - {name: open, port: ${port}, protocol: HTTP, hostname: "*.open.test"}
  - {name: capped, port: ${port}, protocol: HTTP, hostname: "*.capped.test"}
  - {name: raw, port: 9999, protocol: TCP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: foreign, namespace: NS}
spec:
  gatewayClassName: of-another-controller
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: {name: echo, namespace: NS}
spec: {static: {host: 127.0.0.1, port: ${backendPort}}}
---
apiVersion: v1
kind: Service
metadata: {name: shared, namespace: NS-other}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: granted, namespace: NS-other}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: granted, namespace: NS-other}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: NS}]
  to: [{group: "", kind: Service, name: granted}]
---`;
}
