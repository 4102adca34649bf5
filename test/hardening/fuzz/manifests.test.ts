/**
 * Any field of any kind may hold anything: parsing, translation, the plan of the controller and what a worker compiles
 * neither throw nor block, and no more memory stays than the manifests are worth.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import type { RejectedResource } from "../../../proxy/src/api/rejected-resource.ts";
import { kindNames, type Resource, resourceSet } from "../../../proxy/src/api/resource.ts";
import { parseManifests } from "../../../proxy/src/api/parse-manifests.ts";
import { planFor } from "../../../proxy/src/controller/plan.ts";
import { isObject, type KubeObject } from "../../../proxy/src/kube/object.ts";
import { compileDescriptor } from "../../../proxy/src/policy/ratelimit/global/descriptors.ts";
import { CounterTable } from "../../../proxy/src/policy/ratelimit/counter-table.ts";
import { compileLimits } from "../../../proxy/src/policy/ratelimit/local-limiter.ts";
import { compileFilters } from "../../../proxy/src/filters/compile-filters.ts";
import { compileRoutes } from "../../../proxy/src/routing/compile-routes.ts";
import { patternsOf } from "../../../proxy/src/routing/route-patterns.ts";
import { holdResource } from "../../../proxy/src/source/kubernetes/held-resource.ts";
import { noCredentials } from "../../../proxy/src/translate/credentials.ts";
import { gatewayScope } from "../../../proxy/src/translate/gateway-scope.ts";
import { translate } from "../../../proxy/src/translate/translate.ts";
import { fuzz, type FuzzCase } from "../support/fuzz.ts";

/** Every object of the golden tests: together they set nearly every field of every kind. */
const golden = join(import.meta.dirname, "../../../proxy/src/translate/testdata");
const seeds: readonly KubeObject[] = readdirSync(golden)
  .filter((file) => file.endsWith(".in.yaml"))
  .flatMap((file) => parseAllDocuments(readFileSync(join(golden, file), "utf8")))
  .flatMap((document) => (document.errors.length > 0 ? [] : [document.toJS() as unknown]))
  .filter(isObject);

type Path = readonly (string | number)[];

/** Every field and item of a value, the outer ones first. */
function pathsOf(value: unknown, before: Path = []): readonly Path[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, field]) => {
    const path = [...before, Array.isArray(value) ? Number(name) : name];
    return [path, ...pathsOf(field, path)];
  });
}

function withField(value: unknown, [first, ...rest]: Path, field: unknown): unknown {
  if (first === undefined) return field;
  if (Array.isArray(value))
    return value.map((item: unknown, at) => (at === first ? withField(item, rest, field) : item));
  if (!isObject(value)) return value;
  // `__proto__` is to be a field like any other, as JSON.parse makes it.
  return Object.fromEntries([...Object.entries(value), [first, withField(value[first], rest, field)]]);
}

const huge = [
  "a".repeat(100_000),
  "x{1000}".repeat(140),
  "(".repeat(4_000),
  `[${"\\x{100}-\\x{ffff}".repeat(60)}]`,
  "(?i)[a-\\x{ffff}]{50}",
  `${'request.path.replace("", '.repeat(30)}""${")".repeat(30)}`,
  "[".repeat(500),
  "/../".repeat(300),
  "*.".repeat(200),
];
const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "prototype"];
const odd = [
  "",
  "\u0000",
  "\ud800",
  "é☃😀",
  "\r\nx: y",
  "%2f",
  "a/b",
  "127.0.0.1",
  "::1",
  "-",
  "1e999",
  "${x}",
  "{{x}}",
];
const numbers = [-1, 0, 1.5, 2 ** 31, 2 ** 53 + 2, 1e308, -1e308];

const anything: fc.Arbitrary<FuzzCase> = fc.oneof(
  fc.constantFrom<FuzzCase>(...huge, ...names, ...odd, ...numbers, null, true, [], {}),
  fc.constantFrom(...names).map((name) => JSON.parse(`{"${name}": {"a": 1}}`) as FuzzCase),
  fc.constantFrom(50, 500).map((depth) => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as FuzzCase),
  fc.constantFrom(200, 3_000).map((length) => Array.from({ length }, () => "a")),
  fc.string(),
  fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<FuzzCase>,
);

const edit = fc.record({
  object: fc.nat(seeds.length - 1),
  /** Which of its fields; part of the whole, so that it fits any object. */
  field: fc.nat(10_000),
  /** Beside a field, or in its place. */
  beside: fc.option(fc.constantFrom(...names, "novelty", "value", "type"), { nil: null }),
  value: anything,
});

interface Edit {
  readonly object: number;
  readonly field: number;
  readonly beside: string | null;
  readonly value: FuzzCase;
}

function edited({ object, field, beside, value }: Edit): KubeObject {
  const seed = seeds[object] ?? {};
  const paths = pathsOf(seed);
  const path = paths[Math.floor((field / 10_001) * paths.length)] ?? [];
  const changed = withField(seed, beside === null ? path : [...path.slice(0, -1), beside], value);
  return isObject(changed) ? changed : {};
}

/** What a proxy and a controller of a cluster do with the objects. */
function runCluster(objects: readonly KubeObject[]): void {
  const held = objects.map((object) => holdResource(object, undefined, { keepsStatus: true }));
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
  // An object that makes it throw is left out, and told.
  expect(planFor({ resources, rejected, unreadable: new Set() }, defaults, noCredentials).culprits).toEqual([]);
  for (const { metadata } of resources.Gateway) compile(translate(gatewayScope(resources, metadata)));
}

const defaults = {
  image: "proxy:1",
  imagePullPolicy: "IfNotPresent",
  replicas: 2,
  serviceType: "ClusterIP",
  clusterRole: "proxy",
  hasNetworkPolicy: true,
  allowedAddresses: [],
  refusedPolicies: "Closed",
} as const;

const counters = new CounterTable(createCounterMemory(1_024), 1);

/** What a worker makes of a snapshot, without its sockets. */
function compile({ binds }: Pick<ReturnType<typeof translate>, "binds">): void {
  structuredClone(binds);
  for (const bind of binds) {
    for (const pattern of patternsOf(bind)) pattern.prepare();
    const index = compileRoutes(bind, (_listener, _route, rule) => {
      compileFilters(rule.filters);
      compileLimits(rule.limits, counters);
      for (const { descriptors } of rule.globalLimits ?? []) descriptors.map(compileDescriptor);
    });
    index.find({ method: "GET", path: "/a?b=c", authority: "a.example", rawHeaders: ["a", "b"] });
  }
}

/** The best of several runs: load adds to some of them, and not to each. */
function bestMs(run: () => void, mostRuns = 5): number {
  let best = Number.POSITIVE_INFINITY;
  for (let runs = 0; runs < mostRuns && best >= blockedMs; runs++) {
    const startedMs = performance.now();
    run();
    best = Math.min(best, performance.now() - startedMs);
  }
  return best;
}

/** How long an event loop may be blocked. */
const blockedMs = 100;

fuzz("manifests", {
  arbitrary: fc.array(edit, { minLength: 1, maxLength: 4 }),
  check(edits) {
    const objects = edits.map(edited);
    for (const object of objects) {
      expect(bestMs(() => holdResource(object, undefined, { keepsStatus: true }))).toBeLessThan(blockedMs);
    }
    expect(bestMs(() => runCluster([...common, ...objects]))).toBeLessThan(blockedMs);
    const files = [{ path: "a.yaml", text: JSON.stringify({ kind: "List", items: objects }) }];
    compile(translate(parseManifests(files).resources));
  },
  quickRuns: 60,
});

/** What the edited objects are put among, so that there is a Gateway for them. */
const common = seeds.filter(({ kind }) => kind === "Gateway" || kind === "Service").slice(0, 12);

test("every kind that is read is among the seeds", () => {
  const known = new Set(seeds.map(({ kind }) => kind));
  expect(kindNames.filter((kind) => !known.has(kind))).toEqual([]);
});
