/**
 * Values that are kept by pages of routes: a configuration with several pages is changed at random, and each
 * translation has the result of a copy of the same resources, of which nothing is kept. So have the scopes of its
 * Gateways.
 */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseResource } from "../api/parse-resource.ts";
import { type Resource, type ResourceSet, resourceSet } from "../api/resource.ts";
import { packSnapshot } from "../app/snapshot-parts.ts";
import { clusterEnvironment } from "./environment.ts";
import { acceptedParents } from "./gateway/accepted-parents.ts";
import { gatewayScope, gatewayScopes } from "./gateway/gateway-scope.ts";
import { indexResources } from "./index/resource-index.ts";
import { maxServedAttachments } from "./route/attachment-budget.ts";
import { type Translation, translate, translateInSteps } from "./translate.ts";

const namespaces = ["a", "b", "c"];
const routes = 150;
const gateway = "gateway.networking.k8s.io/v1";

/** What the objects are made of, by the kind of change. */
interface World {
  /** By route: the version of its header, 0 if there is no such route. */
  readonly versions: readonly number[];
  /** By route: the shape of the route. */
  readonly shapes: readonly number[];
  /** By Service: the last number of its address, 0 if there is no such Service. */
  readonly addresses: readonly number[];
  /** Settings, of which each changes an object that concerns many routes. */
  readonly settings: readonly number[];
}

const settings = [
  "listeners",
  "labels",
  "grant",
  "policy",
  "tls",
  "backend",
  "set",
  "class",
  "ports",
  "amount",
] as const;
const services = 12;

function* objectsOf({ versions, shapes, addresses, settings: chosen }: World): Generator<object> {
  const setting = (name: (typeof settings)[number]): number => chosen[settings.indexOf(name)] ?? 0;
  const controllerName = setting("class") === 2 ? "other.test/controller" : "gatewayproxy.dev/controller";
  yield { apiVersion: gateway, kind: "GatewayClass", metadata: { name: "gateway-proxy" }, spec: { controllerName } };
  const selector = { matchLabels: { team: "x" } };
  const from = setting("listeners") === 1 ? { from: "Selector", selector } : { from: "All" };
  const hostname = setting("listeners") === 2 ? { hostname: "*.test" } : {};
  const listener = { name: "http", port: 8080, protocol: "HTTP", allowedRoutes: { namespaces: from } };
  for (const name of ["web", "other"]) {
    const more = { ...listener, name: "more", hostname: "*.shared.test" };
    const others = setting("set") > 0 ? [more] : [];
    const listeners = name === "web" ? [{ ...listener, ...hostname }, ...others] : [{ ...listener, port: 8082 }];
    const allowedListeners = { namespaces: { from: setting("set") === 2 ? "None" : "All" } };
    yield {
      apiVersion: gateway,
      kind: "Gateway",
      metadata: { namespace: "a", name },
      spec: { gatewayClassName: "gateway-proxy", listeners, allowedListeners },
    };
  }
  if (setting("set") > 0) {
    const parentRef = { name: "web" };
    const spec = { parentRef, listeners: [{ ...listener, name: "set", port: 8081 }] };
    yield { apiVersion: gateway, kind: "ListenerSet", metadata: { namespace: "a", name: "set" }, spec };
  }
  for (const [at, name] of namespaces.entries()) {
    const labels = { team: setting("labels") === at ? "y" : "x" };
    yield { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } };
  }
  if (setting("grant") > 0) {
    const spec = {
      from: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", namespace: "b" }],
      to: [{ group: "", kind: "Service", ...(setting("grant") === 2 && { name: "s0" }) }],
    };
    yield { apiVersion: `${gateway}beta1`, kind: "ReferenceGrant", metadata: { namespace: "a", name: "grant" }, spec };
  }
  const limited = [
    { kind: "Gateway", name: "web", requests: 10 + setting("policy") },
    { kind: "HTTPRoute", name: "r3", requests: 20 + setting("amount") },
  ];
  for (const { kind, name, requests } of setting("policy") === 0 ? [] : limited) {
    const targetRefs = [{ group: "gateway.networking.k8s.io", kind, name }];
    const spec = { targetRefs, traffic: { rateLimit: { local: [{ requests, unit: "Minutes" }] } } };
    yield {
      apiVersion: "gatewayproxy.dev/v1alpha1",
      kind: "ProxyPolicy",
      metadata: { namespace: "a", name: name.toLowerCase() },
      spec,
    };
  }
  if (setting("tls") > 0) {
    const validation = { wellKnownCACertificates: "System", hostname: setting("tls") === 1 ? "one.test" : "two.test" };
    const spec = { targetRefs: [{ group: "", kind: "Service", name: "s1" }], validation };
    yield { apiVersion: gateway, kind: "BackendTLSPolicy", metadata: { namespace: "a", name: "tls" }, spec };
  }
  if (setting("backend") > 0) {
    const spec = { static: { host: setting("backend") === 1 ? "one.test" : "two.test", port: 80 } };
    yield { apiVersion: "gatewayproxy.dev/v1alpha1", kind: "Backend", metadata: { namespace: "a", name: "s2" }, spec };
  }
  for (const [at, address] of addresses.entries()) {
    for (const namespace of address === 0 ? [] : namespaces) {
      const metadata = { namespace, name: `s${at}` };
      const ports = [{ port: setting("ports") === 2 ? 81 : 80 }];
      yield { apiVersion: "v1", kind: "Service", metadata, spec: { ports } };
      const labels = { "kubernetes.io/service-name": `s${at}` };
      const endpoints = [{ addresses: [`192.0.2.${address}`], conditions: { ready: true } }];
      const slice = { addressType: "IPv4", ports: [{ port: 8080 }], endpoints };
      yield { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", metadata: { ...metadata, labels }, ...slice };
    }
  }
  for (const [at, version] of versions.entries()) if (version > 0) yield routeOf(at, version, shapes[at] ?? 0);
}

function routeOf(at: number, version: number, shape: number): object {
  const namespace = namespaces[at % namespaces.length];
  const name = `s${at % services}`;
  const ref = {
    name,
    port: 80,
    ...(shape === 1 && { namespace: "a" }),
    ...(shape === 2 && { kind: "Backend", group: "gatewayproxy.dev", port: undefined }),
  };
  const set = [{ name: "x-version", value: String(version) }];
  const filters = [{ type: "RequestHeaderModifier", requestHeaderModifier: { set } }];
  const path =
    shape === 3 ? { type: "RegularExpression", value: `/r${at}.*` } : { type: "PathPrefix", value: `/r${at % 140}` };
  const parents = [
    { namespace: "a", name: shape === 4 ? "other" : shape === 5 ? "missing" : "web" },
    ...(shape === 6 ? [{ namespace: "a", name: "set", kind: "ListenerSet" }] : []),
  ];
  const metadata = { namespace, name: `r${at}`, creationTimestamp: `2026-01-0${1 + (at % 3)}T00:00:00Z` };
  const hostnames = hostnamesOf(at, shape);
  if (shape === 8) {
    return {
      apiVersion: gateway,
      kind: "GRPCRoute",
      metadata,
      spec: { parentRefs: parents, hostnames: [`g${at}.test`], rules: [{ backendRefs: [ref] }] },
    };
  }
  return {
    apiVersion: gateway,
    kind: "HTTPRoute",
    metadata,
    spec: { parentRefs: parents, hostnames, rules: [{ matches: [{ path }], filters, backendRefs: [ref] }] },
  };
}

/** Hostnames of one route, of several, and that cover those of others. */
function hostnamesOf(at: number, shape: number): readonly string[] {
  if (shape === 7) return [`r${at}.test`];
  if (shape === 9) return ["a.shared.test", `r${at % 4}.test`];
  return shape === 10 ? ["*.shared.test"] : [];
}

/** A world of routes whose Services all exist. */
const plain: World = {
  versions: Array.from({ length: routes }, () => 1),
  shapes: Array.from({ length: routes }, (_, at) => (at % 10 === 2 ? 1 : 0)),
  addresses: Array.from({ length: services }, () => 1),
  settings: settings.map(() => 0),
};

type Change = readonly [field: keyof World, at: number, value: number];

/** Most routes are plain, so that pages without any special route occur. */
const shape = fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(10) });
const settingChange = fc.tuple(fc.constant("settings" as const), fc.nat(settings.length - 1), fc.nat(2));
const change: fc.Arbitrary<Change> = fc.oneof(
  // A route with version 0 is removed, or added later.
  fc.tuple(fc.constant("versions" as const), fc.nat(routes - 1), fc.nat(3)),
  fc.tuple(fc.constant("shapes" as const), fc.nat(routes - 1), shape),
  fc.tuple(fc.constant("addresses" as const), fc.nat(services - 1), fc.nat(5)),
  // One of them may have an effect only if another one has a certain value.
  { weight: 4, arbitrary: settingChange },
);
const first: fc.Arbitrary<World> = fc.record({
  versions: fc.constant(Array.from({ length: routes }, () => 1)),
  shapes: fc.oneof(
    fc.constant(Array.from({ length: routes }, () => 0)),
    fc.array(shape, { minLength: routes, maxLength: routes }),
  ),
  addresses: fc.constant(Array.from({ length: services }, () => 1)),
  settings: fc.array(fc.nat(2), { minLength: settings.length, maxLength: settings.length }),
});

const series = fc.tuple(
  first,
  fc.array(fc.array(change, { minLength: 1, maxLength: 3 }), { minLength: 4, maxLength: 8 }),
);

function changed(world: World, [field, at, value]: Change): World {
  return { ...world, [field]: world[field].with(at, value) };
}

/** Returns the resources of a world; an unchanged object is the same value, as a watch has it. */
function resources(world: World, parsed: Map<string, Resource>): ResourceSet {
  return resourceSet(
    Array.from(objectsOf(world), (object) => {
      const text = JSON.stringify(object);
      const known = parsed.get(text);
      if (known !== undefined) return known;
      const result = parseResource(JSON.parse(text));
      if (result.kind !== "resource") throw new Error(`${text}: ${JSON.stringify(result)}`);
      parsed.set(text, result.resource);
      return result.resource;
    }),
  );
}

function packed({ binds, backends }: Translation) {
  return runToEnd(packSnapshot({ generation: 1, binds, backends }));
}

/**
 * Runs a property over the sets of resources of random series of changes.
 *
 * @param check gets a set, and a copy of it.
 */
function holds(check: (resources: ResourceSet, copy: ResourceSet) => void): void {
  fc.assert(
    fc.property(series, ([initial, steps]) => {
      const parsed = new Map<string, Resource>();
      let world = initial;
      for (const changes of [[], ...steps]) {
        world = changes.reduce(changed, world);
        const all = resources(world, parsed);
        check(all, structuredClone(all));
      }
    }),
    { numRuns: 8 },
  );
}

test("the translation of a change among many routes is that of a copy of which nothing is kept", () => {
  let largest = 0;
  holds((all, copy) => {
    largest = Math.max(largest, indexResources(all).routes.length);
    const [own, whole] = [translate(all), translate(copy)];
    expect(own).toEqual(whole);
    expect(packed(own)).toEqual(packed(whole));
  });
  expect(largest).toBeGreaterThan(2);
});

test("so are the scope of a Gateway and its translation, as its proxies compute them", () => {
  const environment = clusterEnvironment({});
  const gatewayName = { namespace: "a", name: "web" };
  holds((all, copy) => {
    const [own, whole] = [gatewayScope(all, gatewayName), gatewayScope(copy, gatewayName)];
    expect(own).toEqual(whole);
    expect(translate(own, { environment })).toEqual(translate(whole, { environment }));
  });
});

test("so are the rights of a Gateway, by the routes that the translation has accepted", () => {
  holds((all, copy) => {
    const rightsOf = (set: ResourceSet) => {
      const accepted = acceptedParents(translate(set, { onlyStatuses: true }).statuses);
      const scopeOf = runToEnd(gatewayScopes(set));
      return ["web", "other"].map((name) => runToEnd(scopeOf({ namespace: "a", name }, { accepted })));
    };
    expect(rightsOf(all)).toEqual(rightsOf(copy));
  });
});

test.each(settings)("so is the translation of each change of the setting %s, where all routes are kept", (name) => {
  const parsed = new Map<string, Resource>();
  let world: World = { ...plain, settings: settings.map((each) => (each === "class" || each === "ports" ? 0 : 1)) };
  for (const value of [1, 2, 0, 1, 0, 2, 1]) {
    world = changed(world, ["settings", settings.indexOf(name), value]);
    const all = resources(world, parsed);
    expect(translate(all)).toEqual(translate(structuredClone(all)));
  }
});

test.each<[string, (version: number) => object]>([
  ["Namespace", (version) => ({ apiVersion: "v1", metadata: { name: "z", labels: { version: String(version) } } })],
  [
    "ReferenceGrant",
    (version) => ({
      apiVersion: gateway,
      spec: {
        from: [{ group: "gateway.networking.k8s.io", kind: "HTTPRoute", namespace: `from-${version}` }],
        to: [{ group: "", kind: "Service" }],
      },
    }),
  ],
  [
    "ListenerSet",
    (version) => ({
      apiVersion: gateway,
      spec: {
        parentRef: { name: "web", namespace: "a" },
        listeners: [{ name: `version-${version}`, port: 8089, protocol: "HTTP" }],
      },
    }),
  ],
  [
    "BackendTLSPolicy",
    (version) => ({
      apiVersion: gateway,
      spec: {
        targetRefs: [{ group: "", kind: "Service", name: "s1" }],
        validation: { wellKnownCACertificates: "System", hostname: `version-${version}.test` },
      },
    }),
  ],
])("a change of a %s on which no route depends resolves no route again", (kind, objectOf) => {
  const parsed = new Map<string, Resource>();
  const world = { ...plain, shapes: plain.shapes.map(() => 0) };
  const [first, second] = [1, 2].map((version) => {
    const result = parseResource({ kind, metadata: { namespace: "z", name: "z" }, ...objectOf(version) });
    if (result.kind !== "resource") throw new Error(JSON.stringify(result));
    return result.resource;
  });
  const stepsWith = (object: Resource | undefined): number => {
    const own: readonly Resource[] = Object.values(resources(world, parsed)).flat();
    const steps = translateInSteps(resourceSet(object === undefined ? own : [...own, object]));
    let count = 0;
    while (steps.next().done !== true) count++;
    return count;
  };
  const whole = stepsWith(first);
  const again = stepsWith(first);
  expect(whole - again).toBeGreaterThan(3 * routes);
  // Conflicts are found from the start if listeners change, in a step for each route.
  expect(stepsWith(second) - again).toBeLessThan(kind === "ListenerSet" ? 1.2 * routes : 0.2 * routes);
});

test("routes of many Gateways, none of which has too many, are not resolved again", () => {
  const parsed = (object: object): Resource => {
    const result = parseResource(object);
    if (result.kind !== "resource") throw new Error(JSON.stringify(result));
    return result.resource;
  };
  const gateways = Array.from({ length: 3 }, (_, at) => `g${at}`);
  const listeners = Array.from({ length: 64 }, (_, at) => ({ name: `l${at}`, port: 8000 + at, protocol: "HTTP" }));
  const routeAt = (at: number, value: string) =>
    parsed({
      ...{ apiVersion: gateway, kind: "HTTPRoute", metadata: { namespace: "a", name: `r${at}` } },
      spec: {
        parentRefs: gateways.map((name) => ({ name })),
        hostnames: [`r${at}.test`],
        rules: [{ matches: [{ path: { value } }] }],
      },
    });
  const owners = gateways.map((name) =>
    parsed({
      ...{ apiVersion: gateway, kind: "Gateway", metadata: { namespace: "a", name } },
      spec: { gatewayClassName: "gateway-proxy", listeners },
    }),
  );
  // More than one process could serve.
  const all = Array.from({ length: 334 }, (_, at) => routeAt(at, "/"));
  expect(all.length * gateways.length * listeners.length).toBeGreaterThan(maxServedAttachments);
  const stepsWith = (last: Resource): number => {
    const resources = resourceSet([...owners, ...all.slice(1), last]);
    const steps = translateInSteps(resources, { onlyStatuses: true, environment: clusterEnvironment({}) });
    let count = 0;
    while (steps.next().done !== true) count++;
    return count;
  };
  const whole = stepsWith(routeAt(0, "/"));
  const again = stepsWith(routeAt(0, "/other"));
  expect(again).toBeLessThan(whole / 4);
});

test("so is the translation of each change of a Service", () => {
  const parsed = new Map<string, Resource>();
  for (const address of [1, 2, 0, 3]) {
    const all = resources(changed(plain, ["addresses", 1, address]), parsed);
    expect(translate(all)).toEqual(translate(structuredClone(all)));
  }
});

test("an unchanged page of routes is the same list, and its routes are the same in the next snapshot", () => {
  const parsed = new Map<string, Resource>();
  const world = { ...plain, shapes: plain.shapes.map(() => 0) };
  const before = resources(world, parsed);
  const after = resources(changed(world, ["versions", 7, 2]), parsed);
  const pages = new Set(indexResources(before).routes);
  expect(indexResources(after).routes.filter((page) => !pages.has(page))).toHaveLength(1);
  const routesOf = (set: ResourceSet) =>
    translate(set).binds.flatMap(({ listeners }) => listeners.flatMap((it) => it.routes));
  const known = new Set(routesOf(before));
  expect(known.size).toBe(routes);
  expect(
    routesOf(after)
      .filter((route) => !known.has(route))
      .map(({ name }) => name),
  ).toEqual(["r7"]);
});
