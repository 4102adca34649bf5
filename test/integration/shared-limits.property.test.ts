/**
 * Buckets and limits that replicas share, against a plain model: from manifests over the translation to the limiters of
 * several replicas, each with its own counters.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import type { RequestView } from "../../proxy/src/cel/request-view.ts";
import type { LocalLimit } from "../../proxy/src/ir/limit.ts";
import type { CounterTable } from "../../proxy/src/policy/ratelimit/counter-table.ts";
import { compileLimits, type LimitSet } from "../../proxy/src/policy/ratelimit/local-limiter.ts";
import { freshTable, request } from "../../proxy/src/policy/ratelimit/testing/local-limits.ts";
import { translate } from "../../proxy/src/translate/translate.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest } from "../support/gateway.ts";

const windowMs = 60_000;
const rules = ["r0", "r1"] as const;
type Rule = (typeof rules)[number];

interface Entry {
  readonly amount: number;
  readonly bucket: "a" | "b" | undefined;
  readonly isKeyed: boolean;
  readonly isShared: boolean;
}

interface Policy {
  /** `r0`, `r1`, or the Gateway of both. */
  readonly target: Rule | "web";
  readonly entries: readonly Entry[];
}

const entry: fc.Arbitrary<Entry> = fc.record({
  amount: fc.integer({ min: 1, max: 12 }),
  bucket: fc.constantFrom(undefined, "a", "a", "b"),
  isKeyed: fc.boolean(),
  isShared: fc.boolean(),
});

const policies: fc.Arbitrary<readonly Policy[]> = fc.array(
  fc.record({
    target: fc.constantFrom(...rules, "web" as const),
    entries: fc.array(entry, { minLength: 1, maxLength: 3 }),
  }),
  { minLength: 1, maxLength: 4 },
);

type Event =
  | { readonly kind: "request"; readonly replica: number; readonly rule: Rule; readonly user: string }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "scale"; readonly replicas: number };

const sent = fc.record({
  kind: fc.constant("request" as const),
  replica: fc.nat(4),
  rule: fc.constantFrom(...rules),
  user: fc.constantFrom("ann", "ben"),
});
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 20, arbitrary: sent },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("wait" as const),
      ms: fc.constantFrom(1, 20_000, windowMs - 1, windowMs, 3 * windowMs),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("scale" as const), replicas: fc.integer({ min: 1, max: 5 }) }),
  },
);

const targetOf = (target: Policy["target"]): string =>
  target === "web" ? "kind: Gateway, name: web" : `kind: HTTPRoute, name: ${target}`;

function manifestOf({ target, entries }: Policy, index: number): string {
  const texts = entries.map(({ amount, bucket, isKeyed, isShared }) => {
    const optional = [
      bucket === undefined ? "" : `, bucket: ${bucket}`,
      isKeyed ? `, key: 'request.headers["x-user"]'` : "",
      isShared ? ", shareAcrossReplicas: true" : "",
    ];
    return `{ requests: ${amount}, unit: Minutes${optional.join("")} }`;
  });
  return policyManifest(`p${index}`, targetOf(target), texts);
}

/** The limits of each rule in a replica, of `replicas`. */
function limitsOf(all: readonly Policy[], replicas: number): ReadonlyMap<Rule, readonly LocalLimit[]> {
  const routes = rules.map((name) => routeManifest(name, [`matches: [{ path: { value: /${name} } }]`]));
  const text = manifests(gatewayManifest(), ...routes, ...all.map(manifestOf));
  const { resources, problems } = parseManifests([{ path: "all.yaml", text }]);
  expect(problems).toEqual([]);
  const listeners = translate(resources, { readyReplicas: replicas }).binds.flatMap((bind) => bind.listeners);
  const served = listeners.flatMap((listener) => listener.routes);
  return new Map(
    rules.map((name) => [name, served.find(({ key }) => key === `default/${name}`)?.rules[0]?.limits ?? []]),
  );
}

/** The limiters of all replicas. A replica keeps its counters while the others come and go. */
class Real {
  readonly #policies: readonly Policy[];
  readonly #tables: CounterTable[] = [];
  #sets: readonly ReadonlyMap<Rule, LimitSet>[] = [];

  constructor(all: readonly Policy[]) {
    this.#policies = all;
  }

  scale(replicas: number): void {
    this.#tables.length = Math.min(this.#tables.length, replicas);
    while (this.#tables.length < replicas) this.#tables.push(freshTable());
    const limits = limitsOf(this.#policies, replicas);
    this.#sets = this.#tables.map(
      (table) => new Map(rules.map((rule) => [rule, compileLimits(limits.get(rule) ?? [], table)])),
    );
  }

  allows(replica: number, rule: Rule, user: string, nowMs: number): boolean {
    const view: RequestView = { ...request, rawHeaders: ["x-user", user] };
    return this.#sets[replica]?.get(rule)?.decide(view, nowMs).kind === "allowed";
  }

  /** The units in all counters of a replica. */
  usedIn(replica: number, nowMs: number): number {
    return [...(this.#tables[replica]?.entries(nowMs) ?? [])].reduce((sum, { used }) => sum + used, 0);
  }
}

interface Counter {
  used: number;
  startMs: number;
}

/** What the documentation says, for one replica. */
class Model {
  readonly #counters = new Map<string, Counter>();

  allows(all: readonly Policy[], replicas: number, rule: Rule, user: string, nowMs: number): boolean {
    const applied = all.flatMap(({ target, entries }, policy) =>
      target === "web" || target === rule ? entries.map((each, index) => ({ each, place: `${policy} ${index}` })) : [],
    );
    const checked = applied.map(({ each, place }) => {
      const name = `${each.bucket === undefined ? `entry ${place}` : `bucket ${each.bucket}`} ${each.isKeyed ? user : ""}`;
      const counter = this.#settled(name, nowMs);
      const share = each.isShared ? Math.max(1, Math.floor(each.amount / replicas)) : each.amount;
      return { counter, isAllowed: counter.used + 1 <= share };
    });
    if (checked.some(({ isAllowed }) => !isAllowed)) return false;
    // A request counts once in each counter, whatever the number of its entries.
    for (const counter of new Set(checked.map((each) => each.counter))) {
      if (counter.used === 0) counter.startMs = nowMs;
      counter.used += 1;
    }
    return true;
  }

  usedAt(nowMs: number): number {
    return [...this.#counters.keys()].reduce((sum, name) => sum + this.#settled(name, nowMs).used, 0);
  }

  #settled(name: string, nowMs: number): Counter {
    const counter = this.#counters.get(name) ?? { used: 0, startMs: nowMs };
    this.#counters.set(name, counter);
    const ended = Math.floor((nowMs - counter.startMs) / windowMs);
    if (ended > 0) counter.used = 0;
    counter.startMs += ended * windowMs;
    return counter;
  }
}

test("each replica decides as the model, while replicas come and go, and counts each request once", () => {
  let denials = 0;
  fc.assert(
    fc.property(
      policies,
      fc.integer({ min: 1, max: 4 }),
      fc.array(event, { minLength: 60, maxLength: 150, size: "max" }),
      (all, first, events) => {
        const real = new Real(all);
        const models: Model[] = [];
        let replicas = first;
        let nowMs = 1_000;
        const scale = (to: number): void => {
          replicas = to;
          real.scale(to);
          models.length = Math.min(models.length, to);
          while (models.length < to) models.push(new Model());
        };
        scale(first);
        for (const each of events) {
          if (each.kind === "wait") {
            nowMs += each.ms;
          } else if (each.kind === "scale") {
            scale(each.replicas);
          } else {
            const replica = each.replica % replicas;
            const model = models[replica];
            const expected = model?.allows(all, replicas, each.rule, each.user, nowMs);
            if (expected === false) denials++;
            expect(real.allows(replica, each.rule, each.user, nowMs)).toBe(expected);
            expect(real.usedIn(replica, nowMs)).toBe(model?.usedAt(nowMs));
          }
        }
      },
    ),
    { numRuns: 60 },
  );
  expect(denials).toBeGreaterThan(1_000);
});

test("all replicas together never allow more than a shared limit, as far as it can be divided", () => {
  const load = fc.array(sent, { minLength: 60, maxLength: 120 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 30 }), load, (replicas, amount, requests) => {
      const shared = { amount, bucket: "a", isKeyed: true, isShared: true } as const;
      const real = new Real(rules.map((target) => ({ target, entries: [shared] })));
      real.scale(replicas);
      for (const user of ["ann", "ben"]) {
        const own = requests.filter((each) => each.user === user);
        const passed = own.filter(({ replica, rule }) => real.allows(replica % replicas, rule, user, 1_000));
        expect(passed.length).toBeLessThanOrEqual(Math.max(amount, replicas));
      }
    }),
    { numRuns: 100 },
  );
});
