/**
 * Objects of every kind that is read: ones that the API server accepts, unusual ones, and ones that no schema permits.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import type * as z from "zod";
import { parseAllDocuments } from "yaml";
import { type Kind, kindNames, kinds } from "../../../proxy/src/api/resource.ts";
import { parameterKeys } from "../../../proxy/src/controller/provision/parameter-keys.ts";
import { isObject, type KubeObject } from "../../../proxy/src/kube/object.ts";
import { mutated } from "./arbitraries.ts";
import type { FuzzCase } from "./fuzz.ts";
import { type Json, valueOf, type Vocabulary } from "./schema-values.ts";

/** A manifest; its names and namespaces are valid, since the API server validates them. */
export type Manifest = { readonly [name: string]: FuzzCase };

/** Every object of the golden tests. */
const golden = join(import.meta.dirname, "../../../proxy/src/translate/testdata");
export const seeds: readonly KubeObject[] = readdirSync(golden)
  .filter((file) => file.endsWith(".in.yaml"))
  .flatMap((file) => parseAllDocuments(readFileSync(join(golden, file), "utf8")))
  .flatMap((document) => (document.errors.length > 0 ? [] : [document.toJS() as unknown]))
  .filter(isObject);

/** The name of objects that a fuzzer creates itself, and that others refer to. */
export const watched = "watched";

/** Few names, so that references meet their targets. */
const objectNames = ["web", "a", "b", "gateway-proxy"];
const namespaces = ["default", "other"];

/** Texts of parameters, complete or not (`provision/parameters.ts`). */
export const parameterTexts: readonly string[] = [
  "spec: { replicas: 3 }",
  "spec:\n  template:\n    spec:\n      tolerations: [{ key: a, operator: Exists }]\n      nodeSelector: { a: b }\n",
  "spec: { type: NodePort, externalTrafficPolicy: Local, ports: [{ port: 80, nodePort: 30000 }] }",
  "metadata: { annotations: { a: b }, labels: { c: d } }",
  "spec: { template: { spec: { containers: [{ name: proxy, resources: { limits: { memory: 1Gi } } }] } } }",
  "spec: { maxReplicas: 5, minReplicas: 2, metrics: [] }",
  "spec: *nothing",
  "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nspec: [*c, *c]",
  `a0: &a0 [x]\n${Array.from({ length: 40 }, (_, at) => `a${at + 1}: &a${at + 1} [*a${at}, *a${at}, *a${at}]`).join("\n")}\n`,
  "spec: &spec { template: *spec }",
  "<<: { spec: { replicas: 1 } }",
  "spec: { replicas: 1e999 }",
  "spec: { replicas: 9007199254740993 }",
  "spec: { __proto__: { replicas: 1 }, constructor: { prototype: { a: 1 } } }",
  "? [a, b]\n: c",
  "--- a\n--- b",
  "!!binary aGk=",
  "spec: !!set { a, b }",
  "\ttab: 1",
  "[".repeat(5_000),
  "{a: ".repeat(5_000),
  `spec: { a: "${"x".repeat(12_000)}" }`,
  "- ".repeat(6_000),
  `spec: {${Array.from({ length: 1_200 }, (_, at) => `k${at}: v`).join(", ")}}`,
  `- &a x\n${"- *a\n".repeat(2_000)}`,
];

/** Labels of a selector, valid or not. */
const labelSelections: readonly Json[] = [
  { tier: "customers" },
  { "example.com/tier": "" },
  Object.fromEntries(Array.from({ length: 8 }, (_, at) => [`k${at}`, "v"])),
  { __proto__: "a", constructor: "b" },
  { "not a key": "a" },
  {},
];

/** Unusual values that many schemas accept. */
const oddTexts = [
  ...["", "a", "A", "0", "true", "null", "x-a", "é☃😀", "%2f", "..", "/", "//", "/a/../b", "*", "*.a.example", "::1"],
  ...["a.example", "127.0.0.1", "localhost", "10ms", "1s", "1h1m1s1ms", "0s", "99999h", "9999999999s"],
  ...["10.0.0.0/8", "fd00::/64", "Exact", "HTTP", "HTTPS", "TLS", "TCP", "UDP", "Ti=", "aGVsbG8="],
  ...["2026-01-31T12:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"],
  ...["(a|b)*c", "(.*a){20}", "x{1000}{2}", "[\\x{100}-\\x{ffff}]{9}", "(?i)é+", "^$", "a".repeat(250)],
  ...['request.headers["x"]', "source.address", '"a" + request.path', "llm.totalTokens", "request.path.size()"],
  ...["gateway.networking.k8s.io", "gatewayproxy.dev", "gatewayproxy.dev/controller", "core", "Gateway", "Service"],
  ...["HTTPRoute", "Backend", "Secret", "ConfigMap", "ListenerSet", "a.b.c.d.e.f.example", "x".repeat(63)],
  ...["__proto__", "constructor", "toString", "a".repeat(4_000), "/a".repeat(500)],
  ...["kubernetes.io/tls", "Hostname", "IPAddress", "spiffe://a/b", "well-known", "System"],
];
const oddNumbers = [0, 1, 2, 80, 443, 1_000, 8_080, 18_080, 65_535, 2_147_483_647, Number.MAX_SAFE_INTEGER, 1.5, -1];

/** The values of each field in the golden tests, and the keys of maps. */
function collected(): { readonly values: Map<string, Set<Json>>; readonly keys: Map<string, Set<string>> } {
  const values = new Map<string, Set<Json>>();
  const keys = new Map<string, Set<string>>();
  const collect = (field: string, value: unknown): void => {
    if (Array.isArray(value)) {
      for (const item of value) collect(field, item);
    } else if (isObject(value)) {
      const known = keys.get(field) ?? new Set();
      keys.set(field, known);
      for (const [name, inner] of Object.entries(value)) {
        known.add(name);
        collect(name, inner);
        // The values of a map are interchangeable.
        collect(field, typeof inner === "string" ? inner : undefined);
      }
    } else if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") {
      values.set(field, (values.get(field) ?? new Set()).add(value));
    }
  };
  for (const seed of seeds) collect("", seed);
  return { values, keys };
}

const known = collected();

const vocabulary: Vocabulary = {
  values(field) {
    if (field === "name") {
      return [...objectNames, watched, watched, watched, "x-a", "X-User", "80", "é", "a".repeat(253)];
    }
    if (field === "namespace") return namespaces;
    const own = [...(known.values.get(field) ?? [])];
    const texts = [...own, ...(field === "data" ? parameterTexts : [])];
    // A selector of Secrets is one value, and the labels of any other selector have values of their own.
    if (field === "matchLabels") texts.push(...labelSelections);
    // Mostly valid ones: one odd value of many makes an object rejected as a whole.
    return [...Array.from({ length: 8 }, () => texts).flat(), ...oddTexts, ...oddNumbers, true, false];
  },
  keys(field) {
    const own = [...(known.keys.get(field) ?? [])];
    return [...own, ...(field === "data" ? parameterKeys : []), "a", "__proto__", "kubernetes.io/service-name"];
  },
};

/** Objects of one kind, with any of its fields. */
export function generated(kind: Kind): fc.Arbitrary<Manifest> {
  // The table has the type of each schema; here any type will do.
  const schema: z.ZodType = kinds[kind].schema;
  return fc
    .tuple(valueOf(schema, vocabulary), fc.constantFrom(...objectNames), fc.constantFrom(...namespaces))
    .map(([value, name, namespace]) => named(isObject(value) ? (value as Manifest) : {}, name, namespace));
}

function named(manifest: Manifest, name: string, namespace: string): Manifest {
  const metadata = isObject(manifest["metadata"]) ? manifest["metadata"] : {};
  return { ...manifest, metadata: { ...(metadata as Manifest), name, namespace } };
}

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
  if (Array.isArray(value)) {
    return value.map((item: unknown, at) => (at === first ? withField(item, rest, field) : item));
  }
  if (!isObject(value)) return value;
  // Makes `__proto__` a field like any other, as JSON.parse does.
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
const fieldNames = ["__proto__", "constructor", "toString", "hasOwnProperty", "prototype"];
const odd = ["\u0000", "\ud800", "\r\nx: y", "a/b", "-", "1e999", "${x}", "{{x}}"];
const numbers = [-1, 0, 1.5, 2 ** 31, 2 ** 53 + 2, 1e308, -1e308];

const anything: fc.Arbitrary<FuzzCase> = fc.oneof(
  fc.constantFrom<FuzzCase>(...huge, ...fieldNames, ...oddTexts, ...odd, ...numbers, null, true, [], {}),
  fc.constantFrom(...fieldNames).map((name) => JSON.parse(`{"${name}": {"a": 1}}`) as FuzzCase),
  fc.constantFrom(50, 500).map((depth) => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as FuzzCase),
  fc.constantFrom(200, 3_000).map((length) => Array.from({ length }, () => "a")),
  fc.string(),
  fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<FuzzCase>,
);

const edit = fc.record({
  /** The index of the field, as a fraction of the whole, so that it fits any object. */
  field: fc.nat(10_000),
  /** Adds a field beside it, or replaces it. */
  beside: fc.option(fc.constantFrom(...fieldNames, "novelty", "value", "type"), { nil: null }),
  value: anything,
});

function edited(
  manifest: Manifest,
  { field, beside, value }: typeof edit extends fc.Arbitrary<infer Edit> ? Edit : never,
): Manifest {
  const paths = pathsOf(manifest);
  const path = paths[Math.floor((field / 10_001) * paths.length)] ?? [];
  const changed = withField(manifest, beside === null ? path : [...path.slice(0, -1), beside], value);
  return isObject(changed) ? (changed as Manifest) : {};
}

const anyGenerated = fc.oneof(...kindNames.map(generated));
const anyBase = fc.oneof(anyGenerated, fc.constantFrom(...(seeds as readonly Manifest[])));

/** Valid by its schema, or with one field that is not. */
export const manifest: fc.Arbitrary<Manifest> = fc.oneof(
  { weight: 3, arbitrary: anyGenerated },
  { weight: 4, arbitrary: fc.tuple(anyBase, edit).map(([base, change]) => edited(base, change)) },
);

const yamlTokens = [
  ...["*x", "&x ", "<<: *x", "!!binary ", "!!set ", "? ", "- ", "\t", "|\n", "\0", "{", "}", "[", "]", ": ", "\n", "#"],
  ...["-1", "1e999", "0x10", ".nan", "null", "---\n", "__proto__: ", "spec:\n", "containers: ", "hostPath: "],
];

/** A ConfigMap of parameters with a name. */
export function parameters(name: string): fc.Arbitrary<Manifest> {
  const text = fc.oneof(fc.constantFrom(...parameterTexts), mutated(parameterTexts, yamlTokens));
  return fc.dictionary(fc.constantFrom(...parameterKeys), text, { minKeys: 1 }).map((data) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: "default" },
    data: { ...data },
  }));
}
