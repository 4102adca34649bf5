/** Random entries, policies and requests: all header families agree with a plain model of the counters. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { policyManifest } from "../support/gateway.ts";
import { serveUnder } from "../support/global-policy.ts";
import { parseItems } from "../support/structured-fields.ts";

const tokensOfResponse = 3;
const unitSeconds = { Seconds: 1, Minutes: 60, Hours: 3_600, Days: 86_400 };

interface Entry {
  readonly counts: "requests" | "tokens";
  readonly amount: number;
  readonly unit: keyof typeof unitSeconds;
  readonly every: number;
  readonly isNamed: boolean;
  readonly isConditional: boolean;
  readonly isShadow: boolean;
}

const entry: fc.Arbitrary<Entry> = fc.record({
  counts: fc.constantFrom("requests", "tokens"),
  amount: fc.integer({ min: 1, max: 6 }),
  unit: fc.constantFrom("Seconds", "Minutes", "Hours", "Days"),
  every: fc.integer({ min: 1, max: 3 }),
  isNamed: fc.boolean(),
  isConditional: fc.boolean(),
  isShadow: fc.constantFrom(false, false, false, true),
});

interface Policy {
  readonly entries: readonly Entry[];
  /** Undefined: the default. */
  readonly headers: readonly string[] | undefined;
}

const policy: fc.Arbitrary<Policy> = fc.record({
  // The default name of an entry may be a name of another.
  entries: fc.array(entry, { minLength: 1, maxLength: 5 }),
  headers: fc.option(fc.subarray(["XRateLimit", "Ietf", "OpenAI"]), { nil: undefined }),
});

const step = fc.record({
  advanceMs: fc.constantFrom(0, 0, 1, 999, 1_000, 30_500, 60_000, 3_600_000),
  /** Whether entries with a condition apply. */
  isMember: fc.boolean(),
});

/** One counter; entries have no key. */
class Counter {
  readonly entry: Entry;
  readonly families: readonly string[];
  readonly name: string;
  used = 0;
  startMs = 0;

  constructor(of: Entry, families: readonly string[], name: string) {
    this.entry = of;
    this.families = families;
    this.name = name;
  }

  get windowSeconds(): number {
    return unitSeconds[this.entry.unit] * this.entry.every;
  }

  get remaining(): number {
    return Math.max(0, this.entry.amount - this.used);
  }

  settle(nowMs: number): void {
    if (nowMs >= this.startMs + this.windowSeconds * 1_000) this.used = 0;
  }

  add(units: number, nowMs: number): void {
    if (this.used === 0) this.startMs = nowMs;
    this.used += units;
  }

  resetSeconds(nowMs: number): number {
    return this.used === 0 ? this.windowSeconds : Math.ceil(this.windowSeconds - (nowMs - this.startMs) / 1_000);
  }
}

function yamlOf({ counts, amount, unit, every, isConditional, isShadow }: Entry, name: string | undefined): string {
  const parts = [`${counts}: ${amount}`, `unit: ${unit}`, `every: ${every}`];
  if (name !== undefined) parts.push(`name: ${name}`);
  if (isConditional) parts.push(`when: 'request.headers["x-member"] != "no"'`);
  if (isShadow) parts.push("mode: Shadow");
  return `{ ${parts.join(", ")} }`;
}

/** `a-1` is the default name of the second entry of policy `a`, and the name that this test gives to the first one. */
const nameOf = (policyName: string, at: number): string => `${policyName}-${at + 1}`;

function countersOf(policies: readonly (readonly [string, Policy])[]): readonly Counter[] {
  const taken = new Set<string>();
  return policies.flatMap(([policyName, { entries, headers = ["XRateLimit"] }]) =>
    entries.map((each, at) => {
      const base = each.isNamed ? nameOf(policyName, at) : `${policyName}-${at}`;
      let name = base;
      for (let number = 2; taken.has(name); number++) name = `${base}-${number}`;
      taken.add(name);
      return new Counter(each, headers, name);
    }),
  );
}

const nearest = (counters: readonly Counter[]): Counter | undefined =>
  counters
    .map((counter) => ({ counter, share: counter.remaining / counter.entry.amount }))
    .toSorted(
      (a, b) =>
        a.share - b.share ||
        Number(b.counter.entry.counts === "requests") - Number(a.counter.entry.counts === "requests"),
    )[0]?.counter;

/** Reads `1h2m3s`. */
function secondsOf(duration: string | null): number {
  const [, hours = "0", minutes = "0", seconds = "0"] = /^(?:(\d+)h)?(?:(\d+)m)?(\d+)s$/.exec(duration ?? "") ?? [];
  return Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds);
}

function expectHeaders(
  headers: Headers,
  applied: readonly Counter[],
  denying: Counter | undefined,
  nowMs: number,
): void {
  const of = (family: string) => applied.filter(({ families }) => families.includes(family));
  const xRateLimit =
    denying === undefined ? nearest(of("XRateLimit")) : denying.families.includes("XRateLimit") ? denying : undefined;
  expect(["limit", "remaining", "reset"].map((part) => headers.get(`x-ratelimit-${part}`))).toEqual(
    xRateLimit === undefined
      ? [null, null, null]
      : [xRateLimit.entry.amount, xRateLimit.remaining, xRateLimit.resetSeconds(nowMs)].map(String),
  );
  const ietf = of("Ietf");
  if (ietf.length === 0) {
    expect([headers.get("ratelimit"), headers.get("ratelimit-policy")]).toEqual([null, null]);
  } else {
    const itemsOf = (name: string) =>
      parseItems(headers.get(name) ?? "").map(({ value, parameters }) => [value, Object.fromEntries(parameters)]);
    expect(itemsOf("ratelimit-policy")).toEqual(
      ietf.map(({ name, entry: { amount, counts }, windowSeconds }) => [
        name,
        { q: amount, ...(counts === "tokens" && { qu: "tokens" }), w: windowSeconds },
      ]),
    );
    expect(itemsOf("ratelimit")).toEqual(
      ietf.map((counter) => [counter.name, { r: counter.remaining, t: counter.resetSeconds(nowMs) }]),
    );
  }
  for (const unit of ["requests", "tokens"] as const) {
    const ofUnit = of("OpenAI").filter((counter) => counter.entry.counts === unit);
    const shown = denying !== undefined && ofUnit.includes(denying) ? denying : nearest(ofUnit);
    expect(headers.get(`x-ratelimit-limit-${unit}`)).toBe(shown === undefined ? null : String(shown.entry.amount));
    expect(headers.get(`x-ratelimit-remaining-${unit}`)).toBe(shown === undefined ? null : String(shown.remaining));
    if (shown !== undefined) {
      expect(secondsOf(headers.get(`x-ratelimit-reset-${unit}`))).toBe(shown.resetSeconds(nowMs));
    }
  }
}

test("all families agree with the counters", async () => {
  const { port } = await startBackend((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ model: "a", usage: { total_tokens: tokensOfResponse } }));
  });
  const scenario = fc.record({
    route: policy,
    gateway: policy,
    steps: fc.array(step, { minLength: 1, maxLength: 12 }),
  });
  await fc.assert(
    fc.asyncProperty(scenario, async ({ route, gateway: ofGateway, steps }) => {
      const manifest = (name: string, target: string, { entries, headers }: Policy): string =>
        policyManifest(
          name,
          target,
          entries.map((each, at) => yamlOf(each, each.isNamed ? nameOf(name, at) : undefined)),
          headers === undefined ? [] : [`headers: [${headers.join(", ")}]`],
        );
      const gateway = await serveUnder(
        { port } as Parameters<typeof serveUnder>[0],
        manifest("a", "kind: HTTPRoute, name: chat", route),
        manifest("b", "kind: Gateway, name: web", ofGateway),
      );
      const counters = countersOf([
        ["a", route],
        ["b", ofGateway],
      ]);
      for (const { advanceMs, isMember } of steps) {
        gateway.clock.advance(advanceMs);
        const nowMs = gateway.clock.monotonicMs();
        const applied = counters.filter(
          ({ entry: { isConditional, isShadow } }) => !isShadow && (isMember || !isConditional),
        );
        for (const counter of counters) counter.settle(nowMs);
        const denying = applied
          .filter(({ remaining }) => remaining === 0)
          // Of several the one whose window ends last, and of those the first.
          .toSorted((a, b) => b.startMs + b.windowSeconds * 1_000 - a.startMs - a.windowSeconds * 1_000)[0];
        const { status, headers } = await fetch(gateway.url(), { headers: { "x-member": isMember ? "yes" : "no" } });
        expect(status).toBe(denying === undefined ? 200 : 429);
        if (denying === undefined) {
          for (const counter of applied) counter.add(counter.entry.counts === "requests" ? 1 : tokensOfResponse, nowMs);
        }
        expectHeaders(headers, applied, denying, nowMs);
      }
    }),
    { numRuns: 60 },
  );
});
