/**
 * Properties of every configuration: the scenarios of the golden files, with random changes, are translated without an
 * exception, and the result is consistent.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { parseResource } from "../api/parse-resource.ts";
import { type Resource, resourceKey, type ResourceSet, resourceSet } from "../api/resource.ts";
import type { Condition } from "../api/status.ts";
import { packSnapshot } from "../app/snapshot-parts.ts";
import { assertSnapshot } from "../ir/assert-snapshot.ts";
import type { ValidCredentials } from "./tls/credentials.ts";
import { type Translation, translate, translateInSteps } from "./translate.ts";

const folder = join(import.meta.dirname, "testdata");
const scenarios = readdirSync(folder)
  .filter((file) => file.endsWith(".in.yaml"))
  .map((file): readonly unknown[] => {
    const documents = parseAllDocuments(readFileSync(join(folder, file), "utf8"));
    return documents.filter(({ errors }) => errors.length === 0).map((document): unknown => document.toJS());
  });

/** Words that are valid in some field, so that a change often results in another valid configuration. */
const words = fc.constantFrom<unknown>(
  ...["web", "app", "default", "elsewhere", "http", "HTTPRoute", "Gateway", "Service", "", "gateway-proxy", "/", "/x"],
  ...["a.example.com", "*.example.com", "HTTPS", "TLS", "IPAddress", "Exact", "RegularExpression", "[", "__proto__"],
  ...["All", "Selector", "Shadow", "Minutes", "source.address", "2026-01-01T00:00:00Z", "::1", "Deployment"],
  ...[0, 1, 80, 443, -1, 1.5, 1e9, true, null, [], {}],
);

interface Edit {
  /** The position of the change, as a fraction of all. */
  readonly at: number;
  readonly kind: "replace" | "delete" | "repeat" | "transplant";
  readonly value: unknown;
  readonly from: number;
}

const edit: fc.Arbitrary<Edit> = fc.record({
  at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  kind: fc.constantFrom("replace", "delete", "repeat", "transplant"),
  value: fc.oneof(words, words, fc.jsonValue({ maxDepth: 2 })),
  from: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
});

const configuration = fc
  .tuple(fc.array(fc.constantFrom(...scenarios), { minLength: 1, maxLength: 2 }), fc.array(edit, { maxLength: 8 }))
  .map(([chosen, edits]) => {
    const objects = structuredClone(chosen.flat());
    for (const change of edits) applyEdit(objects, change);
    return parse(objects);
  });

/** A change of a set of objects: those at some positions are replaced, removed, or added again as they were. */
interface Step {
  readonly edits: readonly Edit[];
  /** Positions of objects that are left out in this step, as fractions of all. */
  readonly missing: readonly number[];
  readonly readyReplicas: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  edits: fc.array(edit, { maxLength: 3 }),
  missing: fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { maxLength: 2 }),
  readyReplicas: fc.constantFrom(1, 1, 3),
});

/**
 * A configuration that changes: sets of resources in which an unchanged object is the same value, as a watch has it.
 */
const changes = fc
  .tuple(
    fc.array(fc.constantFrom(...scenarios), { minLength: 1, maxLength: 3 }),
    fc.array(step, { minLength: 2, maxLength: 6 }),
  )
  .map(([chosen, steps]) => {
    const objects: unknown[] = structuredClone(chosen.flat());
    const parsed = new Map<string, Resource>();
    return steps.map(({ edits, missing, readyReplicas }) => {
      for (const change of edits) applyEdit(objects, change);
      const left = new Set(missing.map((at) => Math.floor(at * objects.length)));
      const resources = objects.flatMap((object, at) => {
        if (left.has(at)) return [];
        const text = JSON.stringify(object);
        const known = parsed.get(text);
        if (known !== undefined) return [known];
        const result = parseResource(object);
        if (result.kind !== "resource") return [];
        parsed.set(text, result.resource);
        return [result.resource];
      });
      const distinct = new Map(resources.toReversed().map((resource) => [resourceKey(resource), resource]));
      return { resources: resourceSet([...distinct.values()].reverse()), readyReplicas };
    });
  });

type Container = Record<string, unknown> | unknown[];

/** Every field and item below `root`, in order. */
function places(root: unknown): { readonly container: Container; readonly key: string }[] {
  if (typeof root !== "object" || root === null) return [];
  const container = root as Container;
  return Object.entries(container).flatMap(([key, value]) => [{ container, key }, ...places(value)]);
}

function applyEdit(objects: unknown[], { at, kind, value, from }: Edit): void {
  const all = places(objects);
  const place = all[Math.floor(at * all.length)];
  const source = all[Math.floor(from * all.length)];
  if (place === undefined || source === undefined) return;
  const { container, key } = place;
  const read = ({ container: held, key: name }: typeof place) => structuredClone(Reflect.get(held, name) as unknown);
  if (kind === "delete") Reflect.deleteProperty(container, key);
  else if (kind === "repeat" && Array.isArray(container)) container.push(read(place));
  else Reflect.set(container, key, kind === "transplant" ? read(source) : value);
}

/** The valid resources among the objects; the first of a name wins. */
function parse(objects: readonly unknown[]): ResourceSet {
  const byKey = new Map<string, Resource>();
  for (const object of objects) {
    const parsed = parseResource(object);
    if (parsed.kind !== "resource") continue;
    const key = resourceKey(parsed.resource);
    if (!byKey.has(key)) byKey.set(key, parsed.resource);
  }
  return resourceSet(byKey.values());
}

function allRules({ binds }: Translation) {
  return binds.flatMap(({ listeners }) =>
    listeners.flatMap(({ routes }) => routes.flatMap((route) => route.rules.map((rule) => ({ route, rule })))),
  );
}

function conditionLists({ statuses }: Translation): readonly (readonly Condition[])[] {
  return [
    ...statuses.gatewayClasses.map(({ conditions }) => conditions),
    ...statuses.gateways.flatMap(({ conditions, listeners }) => [conditions, ...listeners.map((it) => it.conditions)]),
    ...statuses.httpRoutes.flatMap(({ parents }) => parents.map(({ conditions }) => conditions)),
    ...statuses.proxyPolicies.flatMap(({ ancestors }) => ancestors.map(({ conditions }) => conditions)),
  ];
}

/** Runs a property over random configurations. */
function holds(property: (translation: Translation, resources: ResourceSet) => void): void {
  fc.assert(
    fc.property(configuration, (resources) => {
      property(translate(resources), resources);
    }),
    { numRuns: 400 },
  );
}

describe("for every configuration", () => {
  test("the random ones are often valid, so that the properties below say something", () => {
    const samples = fc.sample(configuration, 200).map((each) => translate(each));
    expect(samples.filter((it) => allRules(it).length > 0).length).toBeGreaterThan(60);
    expect(samples.filter(({ problems }) => problems.length > 0).length).toBeGreaterThan(60);
  });

  test("translation ends with plain data that a thread can be sent", () => {
    holds(({ binds, backends }) => expect(structuredClone({ binds, backends })).toEqual({ binds, backends }));
  });

  test("the translation of a change is that of the same resources without anything kept from before", () => {
    fc.assert(
      fc.property(changes, (sets) => {
        let before: ValidCredentials | undefined;
        for (const { resources, readyReplicas } of sets) {
          const options = { readyReplicas, ...(before !== undefined && { before }) };
          const { credentials, ...changed } = translate(resources, options);
          const whole = translate(structuredClone(resources), options);
          expect({ ...changed, credentials: whole.credentials }).toEqual(whole);
          const pack = ({ binds, backends }: Pick<Translation, "binds" | "backends">) =>
            runToEnd(packSnapshot({ generation: 1, binds, backends }));
          expect(pack(changed)).toEqual(pack(whole));
          before = credentials;
        }
      }),
      { numRuns: 100 },
    );
  });

  test("interleaved translations have the same results as single ones", () => {
    fc.assert(
      fc.property(
        fc.array(configuration, { minLength: 2, maxLength: 3 }),
        fc.infiniteStream(fc.nat(2)),
        (all, turns) => {
          const running = all.map((resources) => translateInSteps(resources));
          const results = new Map<number, Translation>();
          while (results.size < all.length) {
            const index = (turns.next().value ?? 0) % all.length;
            const step = results.has(index) ? undefined : running[index]?.next();
            if (step?.done === true) results.set(index, step.value);
          }
          all.forEach((resources, index) => expect(results.get(index)).toEqual(translate(resources)));
        },
      ),
      { numRuns: 100 },
    );
  });

  test("the order of the resources does not matter", () => {
    holds((translation, resources) => {
      const reversed = Object.fromEntries(Object.entries(resources).map(([kind, list]) => [kind, [...list].reverse()]));
      expect(translate(reversed as unknown as ResourceSet)).toEqual(translation);
    });
  });

  test("the snapshot keeps its invariants", () => {
    holds((translation) => {
      expect(() => runToEnd(assertSnapshot(translation))).not.toThrow();
      for (const { rule } of allRules(translation)) expect(rule.matches.length).toBeGreaterThan(0);
    });
  });

  test("each condition stands once, with a message, and everything that is not well has a problem", () => {
    holds((translation) => {
      for (const conditions of conditionLists(translation)) {
        const types = conditions.map(({ type }) => type);
        expect(new Set(types).size).toBe(types.length);
        for (const { message } of conditions) expect(message).not.toBe("");
      }
      const bad = conditionLists(translation)
        .flat()
        .filter(({ type, status }) => status === "False" && type !== "Conflicted");
      if (bad.length > 0) expect(translation.problems.length).toBeGreaterThan(0);
    });
  });

  test("a policy is attached exactly where its limits are enforced", () => {
    holds((translation) => {
      const rules = allRules(translation);
      const enforced = new Set(
        rules
          .flatMap(({ rule }) => [...rule.limits, ...(rule.globalLimits ?? [])])
          .map(({ policy, target }) => `${policy} ${target}`),
      );
      const attached = new Set<string>();
      for (const { namespace, name, ancestors } of translation.statuses.proxyPolicies) {
        for (const { ancestorRef: ref, conditions } of ancestors) {
          const section = ref.sectionName === undefined ? "" : `#${ref.sectionName}`;
          const place = `${namespace}/${name} ${ref.kind}/${ref.namespace}/${ref.name}${section}`;
          const isAttached = conditions.some(({ type, status }) => type === "Attached" && status === "True");
          // The limits of a rule that no request reaches are in force all the same.
          const isShadowed = conditions.some(({ type, reason }) => type === "Attached" && reason === "Shadowed");
          if (isAttached || isShadowed) attached.add(place);
          // A Gateway without routes has nothing to limit yet; its policy is attached all the same.
          if (isAttached && ref.kind === "HTTPRoute") expect(enforced).toContain(place);
        }
      }
      for (const place of enforced) expect(attached).toContain(place);
    });
  });

  test("a counter is named by one entry of one policy at one target, and is what it says", () => {
    holds((translation) => {
      const entries = new Map<string, string>();
      for (const { rule } of allRules(translation)) {
        // The entries of a bucket share its counter.
        const own = rule.limits.filter(({ bucket }) => bucket === undefined);
        expect(new Set(own.map(({ counter }) => counter)).size).toBe(own.length);
        for (const { counter, mode, ...limit } of own) {
          const entry = JSON.stringify(limit);
          expect(entries.get(counter) ?? entry).toBe(entry);
          entries.set(counter, entry);
          expect(["Enforce", "Shadow"]).toContain(mode);
          expect(limit.amount).toBeGreaterThan(0);
          expect(limit.counts === "requests" || limit.burst === 0).toBe(true);
        }
      }
    });
  });
});
