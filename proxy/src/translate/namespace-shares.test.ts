/** What one namespace may multiply (routes by listeners, references by endpoints) has bounds, and leaves others theirs. */
import { expect, test } from "vitest";
import { parseResource } from "../api/parse-resource.ts";
import { type Resource, resourceSet } from "../api/resource.ts";
import { clusterEnvironment } from "./environment.ts";
import { type Translation, translate, translateInSteps } from "./translate.ts";

const gatewayApi = "gateway.networking.k8s.io/v1";

function read(object: object): Resource {
  const parsed = parseResource(object);
  if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
  return parsed.resource;
}

function gatewayWith(listeners: number): Resource {
  return read({
    apiVersion: gatewayApi,
    kind: "Gateway",
    metadata: { name: "web", namespace: "owner" },
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

function route(namespace: string, name: string, day: number, rules: readonly object[] = [{}]): Resource {
  return read({
    apiVersion: gatewayApi,
    kind: "HTTPRoute",
    metadata: { name, namespace, creationTimestamp: `2026-01-${String(day).padStart(2, "0")}T00:00:00Z` },
    spec: { parentRefs: [{ name: "web", namespace: "owner" }], rules },
  });
}

/** Every condition of the route, each as `Type=Status Reason Message`. */
function conditionsOf({ statuses }: Translation, namespace: string, name: string): readonly string[] {
  return statuses.httpRoutes
    .filter((route) => route.namespace === namespace && route.name === name)
    .flatMap(({ parents }) => parents.flatMap(({ conditions }) => conditions))
    .map(({ type, status, reason, message }) => `${type}=${status} ${reason} ${message}`);
}

test("routes of a namespace are attached 32,000 times, the oldest first, and those of others all the same", () => {
  // 500 of them are at 64 listeners.
  const many = Array.from({ length: 502 }, (_, index) => route("crowd", `r${String(index).padStart(3, "0")}`, 2));
  const oldest = route("crowd", "z", 1);
  const translation = translate(resourceSet([gatewayClass, gatewayWith(64), ...many, oldest, route("other", "o", 3)]), {
    environment: clusterEnvironment(),
  });
  expect(conditionsOf(translation, "crowd", "z")).toContainEqual(expect.stringContaining("Accepted=True"));
  expect(conditionsOf(translation, "crowd", "r498")).toContainEqual(expect.stringContaining("Accepted=True"));
  expect(conditionsOf(translation, "crowd", "r499")).toContainEqual(
    "Accepted=False TooManyAttachments the route would be attached to 64 listeners of this parent, and at most 32000 of a namespace and 64000 in all attachments are served, those of the oldest routes first; name fewer listeners by sectionName or port, or split the Gateway",
  );
  expect(conditionsOf(translation, "other", "o")).toContainEqual(expect.stringContaining("Accepted=True"));
});

/** A Service with so many ports, and 1,000 ready endpoints of each. */
function crowdedService(namespace: string, name: string, ports: number): readonly Resource[] {
  const named = Array.from({ length: ports }, (_, index) => ({ name: `p${index}`, port: 1_000 + index }));
  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name, namespace, labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    ports: named,
    endpoints: Array.from({ length: 1_000 }, (_, index) => ({
      addresses: [`10.1.${index >> 8}.${index & 255}`],
      conditions: { ready: true },
    })),
  };
  const service = { apiVersion: "v1", kind: "Service", metadata: { name, namespace }, spec: { ports: named } };
  return [read(service), read(slice)];
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

test("40,000 endpoints of the Services of a namespace are called, and those of others all the same", () => {
  const resources = resourceSet([
    gatewayClass,
    gatewayWith(1),
    ...crowdedService("crowd", "s", 60),
    route("crowd", "r", 1, rulesFor("s", 60)),
    ...crowdedService("other", "s", 1),
    route("other", "o", 2, rulesFor("s", 1)),
  ]);
  const translation = translate(resources, { environment: clusterEnvironment() });
  const called = (namespace: string) =>
    Object.values(translation.backends)
      .filter((backend) => backend.namespace === namespace)
      .reduce((sum, { endpoints }) => sum + endpoints.length, 0);
  expect([called("crowd"), called("other")]).toEqual([40_000, 1_000]);
  expect(translation.problems.map(({ message }) => message)).toContainEqual(
    "Service crowd/s has more ready endpoints than the 0 that are called: at most 40000 of a namespace and 80000 in all are, each port of a Service counted",
  );
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
  const endpoints = Object.values(translation.backends).map(({ key, endpoints: all }) => [key, all.length]);
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
