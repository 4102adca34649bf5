/**
 * Any field of any kind may contain anything: parsing, translation, the plan of the controller and the compilation of a
 * worker neither throw nor block, and use no more memory than the size of the manifests justifies.
 */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RejectedResource } from "../../../proxy/src/api/rejected-resource.ts";
import { kindNames, kinds, type Resource, resourceSet } from "../../../proxy/src/api/resource.ts";
import { parseResource } from "../../../proxy/src/api/parse-resource.ts";
import { parseManifests } from "../../../proxy/src/api/parse-manifests.ts";
import { planFor } from "../../../proxy/src/controller/plan.ts";
import type { KubeObject } from "../../../proxy/src/kube/object.ts";
import { compileDescriptor } from "../../../proxy/src/policy/ratelimit/global/descriptors.ts";
import { CounterTable, createCounters } from "../../../proxy/src/policy/ratelimit/counter-table.ts";
import { compileLimits } from "../../../proxy/src/policy/ratelimit/local-limiter.ts";
import { compileFilters } from "../../../proxy/src/filters/compile-filters.ts";
import { compileRoutes } from "../../../proxy/src/routing/compile-routes.ts";
import { cacheResource } from "../../../proxy/src/source/kubernetes/cached-resource.ts";
import { noCredentials } from "../../../proxy/src/translate/tls/credentials.ts";
import { gatewayScope } from "../../../proxy/src/translate/gateway/gateway-scope.ts";
import { translate } from "../../../proxy/src/translate/translate.ts";
import { fuzz, hardeningSeconds } from "../support/fuzz.ts";
import { generated, manifest, seeds } from "../support/manifest-values.ts";
import { relativeCost } from "../support/relative-cost.ts";
import { fieldPaths } from "../support/schema-values.ts";

/** The steps of a proxy and a controller of a cluster on the objects. */
function runCluster(objects: readonly KubeObject[]): void {
  const held = objects.map((object) => cacheResource(object, undefined, { keepsStatus: true }));
  const byKey = new Map<string, Resource>();
  for (const { resource } of held) {
    if (resource === undefined) continue;
    const { name } = resource.metadata;
    byKey.set(
      `${resource.kind} ${"namespace" in resource.metadata ? resource.metadata.namespace : ""}/${name}`,
      resource,
    );
  }
  const resources = resourceSet(byKey.values());
  const rejected: readonly RejectedResource[] = held.flatMap((each) => each.rejected ?? []);
  // An object that makes it throw is left out, and reported.
  expect(
    runToEnd(planFor({ resources, rejected, unreadable: new Set(), crowded: new Set() }, defaults, noCredentials))
      .culprits,
  ).toEqual([]);
  for (const { metadata } of resources.Gateway) compile(translate(gatewayScope(resources, metadata)));
}

const defaults = {
  image: "proxy:1",
  imagePullPolicy: "IfNotPresent",
  replicas: 2,
  serviceType: "ClusterIP",
  clusterRole: "proxy",
  hasNetworkPolicy: true,
  metricsFrom: [],
  allowedAddresses: [],
  refusedPolicies: "Closed",
} as const;

const counters = new CounterTable(createCounters(1_024, 2), 1);

/** The steps of a worker on a snapshot, without its sockets. */
function compile({ binds }: Pick<ReturnType<typeof translate>, "binds">): void {
  structuredClone(binds);
  for (const bind of binds) {
    const index = compileRoutes(bind, (_listener, _route, rule) => {
      compileFilters(rule.filters);
      compileLimits(rule.limits, counters);
      for (const { descriptors, target } of rule.globalLimits ?? []) {
        for (const descriptor of descriptors) compileDescriptor(descriptor, target);
      }
    });
    index.find({ method: "GET", path: "/a?b=c", authority: "a.example", rawHeaders: ["a", "b"] });
  }
}

/** The time for which an event loop may be blocked, in reference loops: 100 ms if such a loop takes 0.3 ms. */
const blocked = 330;

fuzz("manifests", {
  arbitrary: fc.array(manifest, { minLength: 1, maxLength: 6 }),
  check(objects) {
    for (const object of objects) {
      const cost = relativeCost(() => cacheResource(object, undefined, { keepsStatus: true }), blocked);
      expect(cost).toBeLessThan(blocked);
    }
    expect(relativeCost(() => runCluster([...common, ...objects]), blocked)).toBeLessThan(blocked);
    const files = [{ path: "a.yaml", text: JSON.stringify({ kind: "List", items: objects }) }];
    compile(translate(parseManifests(files).resources));
  },
  quickRuns: 60,
});

/** The objects beside the edited ones, so that there is a Gateway for them. */
const common = seeds.filter(({ kind }) => kind === "Gateway" || kind === "Service").slice(0, 12);

/** Samples of one kind, at most this many times 100. */
const maxRounds = 60;

/** Valid only beside several fields that must fit. */
const rare = "ProxyPolicy spec.traffic.rateLimit.global.fallback[]";

test.skipIf(hardeningSeconds === undefined)("every field of every kind is set in some valid object", () => {
  const missing = kindNames.flatMap((kind) => {
    const wanted = new Set(fieldPaths(kinds[kind].schema).filter((path) => !`${kind} ${path}`.startsWith(rare)));
    const remove = (object: object): void => {
      if (parseResource(object).kind !== "resource") return;
      for (const path of setPaths(object)) wanted.delete(path);
    };
    // The cases start from them, too. Few generated objects have exactly one of many fields.
    for (const seed of seeds) if (seed["kind"] === kind) remove(seed);
    for (let seed = 0; seed < maxRounds && wanted.size > 0; seed++) {
      for (const object of fc.sample(generated(kind), { numRuns: 100, seed })) remove(object);
    }
    return [...wanted].map((path) => `${kind} ${path}`);
  });
  expect(missing).toEqual([]);
});

/** In the form of `fieldPaths`. Keys of maps are not distinguished from fields. */
function setPaths(value: unknown, path = ""): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item) => setPaths(item, `${path}[]`));
  if (typeof value !== "object" || value === null) return [path];
  const inner = Object.entries(value).flatMap(([name, field]) => [
    ...setPaths(field, path === "" ? name : `${path}.${name}`),
    ...setPaths(field, `${path}{}`),
  ]);
  // A map of labels may be one value of its schema.
  return [path, ...inner];
}
