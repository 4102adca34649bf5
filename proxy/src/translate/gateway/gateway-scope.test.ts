import { gatewayNameLabel } from "../../api/names.ts";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { describe, expect, test } from "vitest";
import { parseManifests } from "../../api/parse-manifests.ts";
import { type ResourceSet, routesOf } from "../../api/resource.ts";
import { gatewayLabelValue } from "./gateway-label.ts";
import { gatewayScope, gatewayScopes, readyReplicas } from "./gateway-scope.ts";
import { namedObjects } from "../reference/references.ts";

const gateway = { namespace: "infra", name: "web" };

const text = `
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: web, namespace: infra}
spec:
  gatewayClassName: gateway-proxy
  allowedListeners: {namespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: apps}}}}
  listeners:
  - name: a
    protocol: HTTPS
    port: 443
    hostname: "*.example.com"
    allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: apps}}}}
    tls: {certificateRefs: [{name: own}, {name: granted, namespace: certs}, {name: other, namespace: certs}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: foreign, namespace: infra}
spec:
  gatewayClassName: gateway-proxy
  listeners: [{name: a, protocol: HTTPS, port: 443, tls: {certificateRefs: [{name: foreign}]}}]
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1beta1
metadata: {name: g, namespace: certs}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: infra}]
  to: [{group: "", kind: Secret, name: granted}]
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: both, namespace: apps}
spec:
  parentRefs: [{name: web, namespace: infra}, {name: foreign, namespace: infra}]
  rules: [{backendRefs: [{name: app, port: 80}, {group: gatewayproxy.dev, kind: Backend, name: llm}]}]
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: foreign, namespace: apps}
spec:
  parentRefs: [{name: foreign, namespace: infra}]
  rules: [{backendRefs: [{name: foreign, port: 80}]}]
---
kind: ProxyPolicy
apiVersion: gatewayproxy.dev/v1alpha1
metadata: {name: limits, namespace: apps}
spec:
  targetRefs:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: both}
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: foreign}
  traffic: {rateLimit: {local: [{requests: 1, unit: Hours}]}}
---
kind: Backend
apiVersion: gatewayproxy.dev/v1alpha1
metadata: {name: llm, namespace: apps}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: key}}}}
---
kind: Backend
apiVersion: gatewayproxy.dev/v1alpha1
metadata: {name: foreign, namespace: apps}
spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: foreign-key}}}}
---
{kind: Service, apiVersion: v1, metadata: {name: app, namespace: apps}, spec: {ports: [{port: 80}]}}
---
{kind: Service, apiVersion: v1, metadata: {name: foreign, namespace: apps}, spec: {ports: [{port: 80}]}}
---
kind: Service
apiVersion: v1
metadata: {name: web-proxy, namespace: infra, labels: {gateway.networking.k8s.io/gateway-name: web}}
spec: {ports: [{port: 443}]}
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: web-1, namespace: infra, labels: {kubernetes.io/service-name: web-proxy}}
addressType: IPv4
endpoints:
- {addresses: [10.0.0.1], targetRef: {kind: Pod, name: one}}
- {addresses: [10.0.0.2], targetRef: {kind: Pod, name: two}}
- {addresses: [10.0.0.3], targetRef: {kind: Pod, name: three}, conditions: {ready: false}}
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: web-2, namespace: infra, labels: {kubernetes.io/service-name: web-proxy}}
addressType: IPv6
endpoints: [{addresses: ["fd00::1"], targetRef: {kind: Pod, name: one}}]
`;

const { resources, problems } = parseManifests([{ path: "x.yaml", text }]);
const names = (kind: keyof ResourceSet) => gatewayScope(resources, gateway)[kind].map(({ metadata }) => metadata.name);

describe("the scope of a Gateway", () => {
  test("has the Gateway, its routes, and the objects to which they refer", () => {
    expect(problems).toEqual([]);
    expect(names("Gateway")).toEqual(["web"]);
    expect(names("HTTPRoute")).toEqual(["both"]);
    expect(names("Backend")).toEqual(["llm"]);
    expect(names("Service")).toEqual(["app", "web-proxy"]);
  });

  test("has neither the other parents of its routes, nor the other targets of its policies", () => {
    const { HTTPRoute, ProxyPolicy } = gatewayScope(resources, gateway);
    expect(HTTPRoute[0]?.spec.parentRefs.map(({ name }) => name)).toEqual(["web"]);
    expect(ProxyPolicy[0]?.spec.targetRefs.map(({ name }) => name)).toEqual(["both"]);
  });

  test("names the Secrets of its listeners and backends, across namespaces only where a grant permits it", () => {
    const named = runToEnd(namedObjects(gatewayScope(resources, gateway)));
    expect(named.map(({ namespace, name }) => `${namespace}/${name}`)).toEqual([
      "infra/own",
      "certs/granted",
      "apps/key",
    ]);
  });

  test("is empty for a Gateway that does not exist", () => {
    const scoped = gatewayScope(resources, { namespace: "infra", name: "none" });
    expect([scoped.Gateway, scoped.HTTPRoute, scoped.ProxyPolicy, scoped.Service].flat()).toEqual([]);
  });
});

test("replicas are the ready pods behind the Gateway's own Service, and this process is one", () => {
  expect(readyReplicas(resources, gateway)).toBe(2);
  expect(readyReplicas(resources, { namespace: "infra", name: "none" })).toBe(1);
});

test("replicas are counted of a Gateway too whose name no label can hold", () => {
  const name = "w".repeat(100);
  const { Service, ...others } = resources;
  const labelled = Service.map((service) => ({
    ...service,
    metadata: { ...service.metadata, labels: { [gatewayNameLabel]: gatewayLabelValue(name) } },
  }));
  expect(readyReplicas({ ...others, Service: labelled }, { namespace: "infra", name })).toBe(2);
});

describe("the part of a cluster that leads further", () => {
  const further = `
${text}
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: more, namespace: apps}
spec:
  parentRef: {name: web, namespace: infra}
  listeners: [{name: a, protocol: HTTPS, port: 8443, tls: {certificateRefs: [{name: of-set}]}}]
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: foreign, namespace: apps}
spec:
  parentRef: {name: foreign, namespace: infra}
  listeners: [{name: a, protocol: HTTP, port: 8443}]
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: of-set, namespace: apps}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: ListenerSet, name: more}]
  rules:
  - filters: [{type: RequestMirror, requestMirror: {backendRef: {name: mirror, port: 80}}}]
    backendRefs: [{name: app, port: 80}]
---
kind: ProxyPolicy
apiVersion: gatewayproxy.dev/v1alpha1
metadata: {name: global, namespace: apps}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: of-set}]
  traffic:
    rateLimit:
      global:
        domain: d
        backendRef: {name: ratelimit, namespace: limits, port: 8081}
        descriptors: [{entries: [{name: a, expression: source.address}]}]
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1beta1
metadata: {name: g, namespace: limits}
spec:
  from: [{group: gatewayproxy.dev, kind: ProxyPolicy, namespace: apps}]
  to: [{group: "", kind: Service}]
---
{kind: Service, apiVersion: v1, metadata: {name: mirror, namespace: apps}, spec: {ports: [{port: 80}]}}
---
{kind: Service, apiVersion: v1, metadata: {name: ratelimit, namespace: limits}, spec: {ports: [{port: 8081}]}}
---
{kind: Service, apiVersion: v1, metadata: {name: ratelimit, namespace: apps}, spec: {ports: [{port: 8081}]}}
${["apps/app", "apps/mirror", "limits/ratelimit", "apps/foreign"]
  .map((service) => {
    const [namespace = "", name = ""] = service.split("/");
    return `---
kind: BackendTLSPolicy
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: ${name}-tls, namespace: ${namespace}}
spec:
  targetRefs: [{group: "", kind: Service, name: ${name}}]
  validation: {hostname: a.example, caCertificateRefs: [{group: "", kind: ConfigMap, name: ${name}-ca}]}
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: ${name}-slice, namespace: ${namespace}, labels: {kubernetes.io/service-name: ${name}}}
addressType: IPv4
endpoints: []
`;
  })
  .join("")}`;
  const parsed = parseManifests([{ path: "x.yaml", text: further }]);
  const scope = gatewayScope(parsed.resources, gateway);
  const placesIn = (kind: keyof ResourceSet) =>
    scope[kind].map(({ metadata }) => `${"namespace" in metadata ? metadata.namespace : ""}/${metadata.name}`);

  test.each([
    ["ListenerSet", ["apps/more"]],
    ["HTTPRoute", ["apps/both", "apps/of-set"]],
    ["ProxyPolicy", ["apps/limits", "apps/global"]],
    ["Service", ["apps/app", "infra/web-proxy", "apps/mirror", "limits/ratelimit"]],
    ["BackendTLSPolicy", ["apps/app-tls", "apps/mirror-tls", "limits/ratelimit-tls"]],
    ["EndpointSlice", ["infra/web-1", "infra/web-2", "apps/app-slice", "apps/mirror-slice", "limits/ratelimit-slice"]],
  ] as const)("has every %s on the way, by sets, mirrors and global limits too", (kind, expected) => {
    expect(parsed.problems).toEqual([]);
    expect(new Set(placesIn(kind))).toEqual(new Set(expected));
    expect(placesIn(kind)).toHaveLength(expected.length);
  });

  test("names their Secrets and ConfigMaps", () => {
    const named = runToEnd(namedObjects(scope)).map(({ kind, namespace, name }) => `${kind} ${namespace}/${name}`);
    expect(named).toEqual([
      ...["Secret infra/own", "Secret certs/granted", "Secret apps/of-set"],
      ...["ConfigMap apps/app-ca", "ConfigMap apps/mirror-ca", "ConfigMap limits/ratelimit-ca", "Secret apps/key"],
    ]);
  });
});

test("policies with unknown targets lead to all that may be their target, and to no other namespace", () => {
  const policyIn = (kind: string, apiVersion: string) => (namespace: string) =>
    `{kind: ${kind}, apiVersion: ${apiVersion}, metadata: {name: of-${namespace}, namespace: ${namespace}}, spec: {targetRefs: 17}}`;
  const namespaces = ["infra", "apps", "other"];
  const policies = namespaces.map(policyIn("ProxyPolicy", "gatewayproxy.dev/v1alpha1"));
  const tlsPolicies = namespaces.map(policyIn("BackendTLSPolicy", "gateway.networking.k8s.io/v1"));
  const parsed = parseManifests([{ path: "x.yaml", text: [text, ...policies, ...tlsPolicies].join("\n---\n") }]);
  const scope = gatewayScope(parsed.resources, gateway);
  // The Gateway and its Service are in one, and its routes and their Services are in the other.
  expect(scope.ProxyPolicy.map(({ metadata }) => metadata.name).sort()).toEqual(["limits", "of-apps", "of-infra"]);
  expect(scope.BackendTLSPolicy.map(({ metadata }) => metadata.name).sort()).toEqual(["of-apps", "of-infra"]);
});

test("replicas are counted where more Services have the label than a call takes arguments", () => {
  const { Service, ...others } = resources;
  const many = 150_000;
  expect(() => Math.max(...new Array<number>(many).fill(0))).toThrow(RangeError);
  const own = Service.filter(({ metadata }) => gatewayNameLabel in metadata.labels);
  expect(own).toHaveLength(1);
  const copies = Array.from({ length: many }, () => own).flat();
  expect(readyReplicas({ ...others, Service: copies }, gateway)).toBe(2);
});

test("a list of providers leads to its Backends and their Secrets in its namespace, and to no others", () => {
  const backend = (name: string, namespace: string, ai: string) => `
---
{kind: Backend, apiVersion: gatewayproxy.dev/v1alpha1, metadata: {name: ${name}, namespace: ${namespace}}, spec: {ai: ${ai}}}`;
  const single = (key: string) => `{provider: {openai: {}}, auth: {secretRef: {name: ${key}}}}`;
  const list = (...names: readonly string[]) =>
    `{providers: [${names.map((name) => `{backendRef: {name: ${name}}}`).join(", ")}]}`;
  const cluster = [
    text.replace(
      "spec: {ai: {provider: {openai: {}}, auth: {secretRef: {name: key}}}}",
      `spec: {ai: ${list("a", "nested")}}`,
    ),
    backend("a", "apps", single("key-a")),
    backend("b", "apps", single("key-b")),
    backend("a", "elsewhere", single("key-elsewhere")),
    backend("nested", "apps", list("b")),
  ].join("");
  const parsed = parseManifests([{ path: "x.yaml", text: cluster }]);
  expect(parsed.problems).toEqual([]);
  const scope = gatewayScope(parsed.resources, gateway);
  expect(scope.Backend.map(({ metadata: { namespace, name } }) => `${namespace}/${name}`)).toEqual([
    "apps/llm",
    "apps/a",
    "apps/nested",
  ]);
  const secrets = runToEnd(namedObjects(scope)).filter(
    ({ kind, namespace }) => kind === "Secret" && namespace === "apps",
  );
  expect(secrets.map(({ name }) => name)).toEqual(["key-a"]);
});

describe("the scope of a Gateway of which no version is known", () => {
  const rejected = `
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: web, namespace: infra}
spec: {gatewayClassName: gateway-proxy, listeners: all}
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: set, namespace: apps}
spec:
  parentRef: {name: web, namespace: infra}
  listeners: [{name: https, port: 8443, protocol: HTTPS, hostname: "*.a.test", tls: {certificateRefs: [{name: cert}]}}]
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: unread, namespace: apps}
spec: {parentRef: {name: web, namespace: infra}, listeners: all}
`;

  /** A route of the kind that names the parent. */
  const route = (kind: string, namespace: string, parentRef: string, more = "") => `---
kind: ${kind}
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: route, namespace: ${namespace}}
spec: {parentRefs: [${parentRef}]${more}, rules: [{backendRefs: [{name: app, port: 80}]}]}
`;

  function routesIn(routeText: string): readonly string[] {
    const parsed = parseManifests([{ path: "x.yaml", text: rejected + routeText }]);
    expect(parsed.problems).toHaveLength(2);
    const scopeOf = runToEnd(gatewayScopes(parsed.resources));
    const scope = runToEnd(scopeOf(gateway, { acceptsAll: true }));
    expect(scope.ListenerSet.map(({ metadata }) => metadata.name)).toEqual(["set", "unread"]);
    return routesOf(scope).map(({ kind, metadata }) => `${kind} ${metadata.namespace}`);
  }

  test.each([
    ["a route of any kind that names it", route("UDPRoute", "other", "{name: web, namespace: infra}")],
    [
      "a route that names one of its sections",
      route("TCPRoute", "other", "{name: web, namespace: infra, sectionName: a}"),
    ],
    ["a route that a ListenerSet accepts", route("HTTPRoute", "apps", "{kind: ListenerSet, name: set}")],
    ["a route of a ListenerSet that is unknown, too", route("TCPRoute", "apps", "{kind: ListenerSet, name: unread}")],
  ])("has %s", (_, routeText) => {
    expect(routesIn(routeText)).toHaveLength(1);
  });

  test.each([
    ["kind", route("UDPRoute", "apps", "{kind: ListenerSet, name: set}")],
    ["kind TCPRoute", route("TCPRoute", "apps", "{kind: ListenerSet, name: set}")],
    ["namespace", route("HTTPRoute", "other", "{kind: ListenerSet, name: set, namespace: apps}")],
    ["section", route("HTTPRoute", "apps", "{kind: ListenerSet, name: set, sectionName: http}")],
    ["host names", route("HTTPRoute", "apps", "{kind: ListenerSet, name: set}", ", hostnames: [b.test]")],
  ])("has no route that the listeners of a ListenerSet do not accept, by its %s", (_, routeText) => {
    expect(routesIn(routeText)).toEqual([]);
  });
});
