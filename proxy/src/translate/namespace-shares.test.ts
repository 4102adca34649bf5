/**
 * What one namespace may multiply (routes by listeners, references by endpoints) has bounds, and leaves others theirs.
 */
import { expect, test } from "vitest";
import { parseResource } from "../api/parse-resource.ts";
import { type Resource, resourceSet } from "../api/resource.ts";
import { clusterEnvironment } from "./environment.ts";
import { type Translation, translate, translateInSteps } from "./translate.ts";
import { backendsByKey } from "../ir/backends-by-key.ts";

const gatewayApi = "gateway.networking.k8s.io/v1";

function read(object: object): Resource {
  const parsed = parseResource(object);
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

function gatewayWith(listeners: number, name = "web"): Resource {
  return read({
    apiVersion: gatewayApi,
    kind: "Gateway",
    metadata: { name, namespace: "owner" },
    spec: {
      gatewayClassName: "gateway-proxy",
      listeners: Array.from({ length: listeners }, (_, index) => ({
        name: `l${index}`,
        port: 8_000 + index,
        protocol: "HTTP",
        allowedRoutes: { namespaces: { from: "All" } },
      })),
    },
  });
}

const gatewayClass = read({
  apiVersion: gatewayApi,
  kind: "GatewayClass",
  metadata: { name: "gateway-proxy" },
  spec: { controllerName: "gatewayproxy.dev/controller" },
});

function route(
  namespace: string,
  name: string,
  day: number,
  rules: readonly object[] = [{}],
  gateway = "web",
): Resource {
  return read({
    apiVersion: gatewayApi,
    kind: "HTTPRoute",
    metadata: { name, namespace, creationTimestamp: `2026-01-${String(day).padStart(2, "0")}T00:00:00Z` },
    spec: { parentRefs: [{ name: gateway, namespace: "owner" }], rules },
  });
}

/** Every condition of the route, each as `Type=Status Reason Message`. */
function conditionsOf({ statuses }: Translation, namespace: string, name: string): readonly string[] {
  return statuses.httpRoutes
    .filter((route) => route.namespace === namespace && route.name === name)
    .flatMap(({ parents }) => parents.flatMap(({ conditions }) => conditions))
    .map(({ type, status, reason, message }) => `${type}=${status} ${reason} ${message}`);
}

test("two namespaces that want everything leave a third what it needs, though its routes are the youngest", () => {
  const crowds = ["crowd", "host"].flatMap((namespace) => [
    ...Array.from({ length: 999 }, (_, index) => route(namespace, `r${index + 1}`, 2)),
    route(namespace, "z", 1),
  ]);
  const few = Array.from({ length: 30 }, (_, index) => route("other", `o${index}`, 3));
  const translation = translate(resourceSet([gatewayClass, gatewayWith(64), ...crowds, ...few]), {
    environment: clusterEnvironment(),
    onlyStatuses: true,
  });
  const accepted = (namespace: string) =>
    translation.statuses.httpRoutes.filter(
      (each) => each.namespace === namespace && each.parents[0]?.conditions[0]?.status === "True",
    ).length;
  expect(["crowd", "host", "other"].map(accepted)).toEqual([485, 485, 30]);
  expect(conditionsOf(translation, "crowd", "z")).toContainEqual(expect.stringContaining("Accepted=True"));
  expect(conditionsOf(translation, "crowd", "r999")).toContainEqual(
    "Accepted=False TooManyAttachments the route would be attached to 64 listeners of this parent, and namespace crowd has a share of 31040 of the 64000 attachments that the proxies of the Gateway serve, the oldest routes first; name fewer listeners by sectionName or port, or split the Gateway",
  );
});

test("routes at one Gateway do not reduce the share at another, and a route that is not validated has its own reason", () => {
  const names = Array.from({ length: 5 }, (_, index) => `g${index}`);
  const many = names.flatMap((gateway) =>
    Array.from({ length: 1_000 }, (_, index) => route("crowd", `${gateway}-${index}`, 1, [{}], gateway)),
  );
  const gateways = names.map((name) => gatewayWith(64, name));
  const translation = translate(resourceSet([gatewayClass, ...gateways, ...many, route("other", "o", 2, [{}], "g4")]), {
    environment: clusterEnvironment(),
    onlyStatuses: true,
  });
  const count = new Map<string, number>();
  for (const { parents } of translation.statuses.httpRoutes) {
    const reason = parents[0]?.conditions[0]?.reason ?? "";
    count.set(reason, (count.get(reason) ?? 0) + 1);
  }
  // 3,999 of `crowd` and the one of `other`; at g4 one of `crowd` is beyond what its proxies serve.
  expect(Object.fromEntries(count)).toEqual({ Accepted: 4_000, TooManyAttachments: 1, TooManyAttachmentsInAll: 1_000 });
  expect(conditionsOf(translation, "other", "o")).toContainEqual(expect.stringContaining("Accepted=True"));
});

function portsOf(count: number) {
  return Array.from({ length: count }, (_, index) => ({ name: `p${index}`, port: 1_000 + index }));
}

/** A slice of 1,000 endpoints with so many ports. */
function crowdedSlice(namespace: string, name: string, ports: number, { of = name, ready = true } = {}): Resource {
  return read({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name, namespace, labels: { "kubernetes.io/service-name": of } },
    addressType: "IPv4",
    ports: portsOf(ports),
    endpoints: Array.from({ length: 1_000 }, (_, index) => ({
      addresses: [`10.1.${index >> 8}.${index & 255}`],
      conditions: { ready },
    })),
  });
}

function serviceWith(namespace: string, name: string, ports: number): Resource {
  return read({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace },
    spec: { ports: portsOf(ports) },
  });
}

/** A Service with so many ports, and 1,000 ready endpoints of each. */
function crowdedService(namespace: string, name: string, ports: number): readonly Resource[] {
  return [serviceWith(namespace, name, ports), crowdedSlice(namespace, name, ports)];
}

/** A rule for each 16 of the ports. */
function rulesFor(service: string, ports: number): readonly object[] {
  return Array.from({ length: Math.ceil(ports / 16) }, (_, rule) => ({
    backendRefs: Array.from({ length: Math.min(16, ports - rule * 16) }, (__, index) => ({
      name: service,
      port: 1_000 + rule * 16 + index,
    })),
  }));
}

test("the endpoints of a namespace are called up to its share of 160,000, and those of others all the same", () => {
  const resources = resourceSet([
    gatewayClass,
    gatewayWith(1),
    ...["crowd", "host"].flatMap((namespace) => [
      ...crowdedService(namespace, "s", 100),
      route(namespace, "r", 1, rulesFor("s", 100)),
    ]),
    ...crowdedService("other", "s", 2),
    route("other", "o", 2, rulesFor("s", 2)),
  ]);
  const translation = translate(resources, { environment: clusterEnvironment() });
  const called = (namespace: string) =>
    translation.backends
      .filter((backend) => backend.namespace === namespace)
      .reduce((sum, { endpoints }) => sum + endpoints.length, 0);
  expect(["crowd", "host", "other"].map(called)).toEqual([79_000, 79_000, 2_000]);
  expect(translation.problems.map(({ message }) => message)).toContainEqual(
    "Service crowd/s has more ready endpoints than the 0 that are called: namespace crowd has a share of 79000 of the 160000 endpoints that are called, each port of a Service counted",
  );
});

test("a namespace alone has 100,000 endpoints called", () => {
  const resources = resourceSet([
    ...[gatewayClass, gatewayWith(1)],
    ...crowdedService("crowd", "s", 100),
    route("crowd", "r", 1, rulesFor("s", 100)),
  ]);
  const { backends, problems } = translate(resources, { environment: clusterEnvironment() });
  expect(backends.reduce((sum, { endpoints }) => sum + endpoints.length, 0)).toBe(100_000);
  expect(problems).toEqual([]);
});

test("routes and policies take endpoints from one budget", () => {
  const policy = read({
    apiVersion: "gatewayproxy.dev/v1alpha1",
    kind: "ProxyPolicy",
    metadata: { name: "p", namespace: "crowd" },
    spec: {
      targetRefs: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", name: "r" }],
      traffic: {
        rateLimit: {
          global: {
            domain: "d",
            backendRef: { name: "s", port: 1_160 },
            descriptors: [{ entries: [{ name: "k", expression: "'v'" }] }],
          },
        },
      },
    },
  });
  const resources = resourceSet([
    ...[gatewayClass, gatewayWith(1), policy],
    ...crowdedService("crowd", "s", 161),
    route("crowd", "r", 1, rulesFor("s", 160)),
  ]);
  const { backends } = translate(resources, { environment: clusterEnvironment() });
  const called = backends.map(({ endpoints }) => endpoints.length);
  expect([called.length, called.reduce((sum, each) => sum + each, 0)]).toEqual([161, 160_000]);
});

test("a reference that no ReferenceGrant permits takes none of the endpoints that the other namespace may have", () => {
  const rules = rulesFor("s", 60).map(
    (rule) => JSON.parse(JSON.stringify(rule).replaceAll('"name":', '"namespace":"owned","name":')) as object,
  );
  const translation = translate(
    resourceSet([
      gatewayClass,
      gatewayWith(1),
      ...crowdedService("owned", "s", 61),
      route("crowd", "r", 1, rules),
      route("owned", "r", 2, [{ backendRefs: [{ name: "s", port: 1_060 }] }]),
    ]),
    { environment: clusterEnvironment() },
  );
  const endpoints = translation.backends.map(({ key, endpoints: all }) => [key, all.length]);
  expect(endpoints).toEqual([["Service/owned/s:1060", 1_000]]);
});

test("each reference of a route is a step, so that the event loop has its turn between them", () => {
  const ports = 256;
  const resources = resourceSet([
    gatewayClass,
    gatewayWith(1),
    ...crowdedService("crowd", "s", 100),
    route("crowd", "r", 1, rulesFor("s", ports)),
  ]);
  const steps = translateInSteps(resources, { environment: clusterEnvironment() });
  let count = 0;
  while (steps.next().done !== true) count++;
  expect(count).toBeGreaterThan(ports);
});

test("endpoints that are not ready are read up to the share of a namespace, however many ports name them", () => {
  const ports = 1_024;
  const slices = ["s", "t", "u"].map((name) => crowdedSlice("crowd", name, ports, { of: "s", ready: false }));
  const routes = [0, 1, 2, 3].map((part) =>
    route("crowd", `r${part}`, 1 + part, rulesFor("s", ports).slice(part * 16, part * 16 + 16)),
  );
  const translation = translate(
    resourceSet([
      ...[gatewayClass, gatewayWith(1), serviceWith("crowd", "s", ports), ...slices, ...routes],
      ...crowdedService("other", "s", 1),
      route("other", "o", 9, rulesFor("s", 1)),
    ]),
    { environment: clusterEnvironment() },
  );
  expect(conditionsOf(translation, "crowd", "r3").join()).toContain(
    "Service crowd/s has more endpoints than are read: namespace crowd has a share of 3997998 of the 4000000 entries",
  );
  expect(conditionsOf(translation, "crowd", "r0").join()).not.toContain("than are read");
  expect(backendsByKey(translation.backends).get("Service/other/s:1000")?.endpoints).toHaveLength(1_000);
});

test("routes that attach nowhere are compared with listeners up to the share of their namespace, and those of others all the same", () => {
  const named = (name: string, index: number) => ({ name, namespace: "owner", sectionName: `l${index}` });
  const elsewhere = (namespace: string, at: number, parents: number) =>
    read({
      apiVersion: gatewayApi,
      kind: "HTTPRoute",
      metadata: { name: `r${at}`, namespace, creationTimestamp: `2026-01-01T00:00:00Z` },
      spec: { parentRefs: Array.from({ length: parents }, (_, index) => named("web", 100 + index)) },
    });
  const routes = Array.from({ length: 500 }, (_, at) => elsewhere("crowd", 100 + at, 32));
  const translation = translate(resourceSet([gatewayClass, gatewayWith(64), ...routes, elsewhere("other", 1, 1)]), {
    environment: clusterEnvironment(),
  });
  // 1,000,000 comparisons are 488 routes with 32 references to 64 listeners.
  const last = conditionsOf(translation, "crowd", "r599");
  expect(last.filter((condition) => condition.startsWith("Accepted=False TooManyAttachmentsInAll"))).toHaveLength(32);
  expect(conditionsOf(translation, "crowd", "r100").join()).toContain("NoMatchingParent");
  expect(conditionsOf(translation, "other", "r1").join()).toContain("NoMatchingParent");
});
