/** Compares the limiter with a plain model: any sequence of events has the same results. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type LocalLimit, unitMs } from "../../ir/limit.ts";
import type { RequestView } from "../../cel/request-view.ts";
import { CounterTable, createCounters } from "./counter-table.ts";
import { type LocalDecision, type LocalAllowed, compileLimits, type LimitSet } from "./local-limiter.ts";
import { request, requestOf, requestsLimit, tokens, tokensLimit } from "./testing/local-limits.ts";

function windowMsOf({ unit = "Minutes" }: LocalLimit): number {
  return unitMs[unit];
}

/** Counts what is available, window by window; the limiter counts what is used, and divides. */
class ModelCounter {
  readonly limit: LocalLimit;
  capacity: number;
  available: number;
  window: { endMs: number } | undefined;

  constructor(limit: LocalLimit) {
    this.limit = limit;
    this.capacity = limit.amount + limit.burst;
    this.available = this.capacity;
  }

  /** Makes the counter that of a request with this limit; the others have counted in it what they have. */
  limitTo(capacity: number): void {
    this.available += capacity - this.capacity;
    this.capacity = capacity;
  }

  advance(nowMs: number): void {
    while (this.window !== undefined && this.window.endMs <= nowMs) {
      const restoresAll = this.limit.counts === "tokens" || this.limit.amountFrom !== undefined;
      const back = restoresAll ? Infinity : this.limit.amount;
      this.available = Math.min(this.capacity, this.available + back);
      this.window =
        this.available === this.capacity ? undefined : { endMs: this.window.endMs + windowMsOf(this.limit) };
    }
  }

  take(units: number, nowMs: number): void {
    this.window ??= { endMs: nowMs + windowMsOf(this.limit) };
    this.available -= units;
  }

  refund(units: number, window: object | undefined): void {
    if (this.window === undefined || this.window !== window) return;
    this.available = Math.min(this.capacity, this.available + units);
    if (this.available === this.capacity) this.window = undefined;
  }

  state(nowMs: number): { limit: number; remaining: number; resetSeconds: number } {
    const leftMs = this.window === undefined ? windowMsOf(this.limit) : this.window.endMs - nowMs;
    const remaining = Math.max(0, this.available);
    return { limit: this.capacity, remaining, resetSeconds: Math.ceil(leftMs / 1000) };
  }
}

/** What a client sends: its name, its tier, and the headers that expressions read. */
interface Sent {
  readonly client: string | undefined;
  readonly isExempt: boolean;
  readonly limit: number | undefined;
  readonly cost: number | undefined;
}

interface ModelLease {
  readonly requests: readonly {
    readonly counter: ModelCounter;
    readonly units: number;
    readonly window: object | undefined;
  }[];
  readonly tokens: readonly ModelCounter[];
  isRefunded: boolean;
}

class Model {
  readonly counters = new Map<string, ModelCounter>();
  readonly reservations: ModelLease[] = [];
  nowMs = 1_000;

  /** The counters of the entries that apply. */
  countersOf(limits: readonly LocalLimit[], { client, isExempt, limit: sent }: Sent): readonly ModelCounter[] {
    const applying = limits.filter(({ when }) => when === undefined || !isExempt);
    return applying.map((limit) => {
      const name = limit.key === undefined ? limit.counter : `${limit.counter} of ${client ?? "no client"}`;
      const counter = this.counters.get(name) ?? new ModelCounter(limit);
      this.counters.set(name, counter);
      counter.advance(this.nowMs);
      if (limit.amountFrom !== undefined) counter.limitTo(sent ?? limit.amount);
      return counter;
    });
  }

  admit(limits: readonly LocalLimit[], sent: Sent): readonly string[] {
    const counters = this.countersOf(limits, sent);
    const units = counters.map(({ limit }) =>
      limit.counts === "tokens" || limit.cost === undefined ? 1 : (sent.cost ?? 1),
    );
    const admits = counters.map((counter, at) => counter.available >= (units[at] ?? 1));
    const isDenied = counters.some((counter, at) => counter.limit.mode === "Enforce" && admits[at] === false);
    if (!isDenied) {
      const taking = counters.filter((_, at) => admits[at]);
      const requests = taking
        .filter((counter) => counter.limit.counts === "requests")
        .map((counter) => ({ counter, units: units[counters.indexOf(counter)] ?? 1 }));
      for (const { counter, units: taken } of requests) if (taken > 0) counter.take(taken, this.nowMs);
      this.reservations.push({
        requests: requests.map(({ counter, units: taken }) => ({ counter, units: taken, window: counter.window })),
        tokens: taking.filter((counter) => counter.limit.counts === "tokens"),
        isRefunded: false,
      });
    }
    const outcomes = new Map(
      counters.map(({ limit }, at) => [
        limit,
        admits[at] === true ? "allowed" : limit.mode === "Shadow" ? "shadowDenied" : "denied",
      ]),
    );
    return limits.map((limit) =>
      limit.when !== undefined && sent.isExempt ? "notApplied" : (outcomes.get(limit) ?? ""),
    );
  }
}

/** The limiter under test: two threads' access to one table, and the rules of a configuration. */
class Real {
  readonly limits: readonly (readonly LocalLimit[])[];
  readonly tables: readonly CounterTable[];
  sets: readonly (readonly LimitSet[])[] = [];
  readonly reservations: LocalAllowed[] = [];

  constructor(limits: readonly (readonly LocalLimit[])[]) {
    const memory = createCounters(4096, 2);
    this.limits = limits;
    this.tables = [new CounterTable(memory, 1), new CounterTable(memory, 2)];
    this.compile([]);
  }

  /** As after an edit that concerns none of the rules; `others` are entries that it added. */
  compile(others: readonly LocalLimit[]): void {
    this.sets = this.tables.map((table) => {
      compileLimits(others, table);
      return this.limits.map((limits) => compileLimits(structuredClone(limits), table));
    });
  }

  admit(thread: number, rule: number, sent: Sent, nowMs: number): LocalDecision {
    const set = this.sets[thread]?.[rule];
    if (set === undefined) throw new Error("no such rule");
    const result = set.decide(requestWith(sent), nowMs);
    if (result.kind === "allowed") this.reservations.push(result);
    return result;
  }
}

function requestWith({ client, isExempt, limit, cost }: Sent): RequestView {
  const { rawHeaders } = client === undefined ? request : requestOf(client);
  const sent = { "x-exempt": isExempt || undefined, "x-limit": limit, "x-cost": cost };
  const headers = Object.entries(sent).flatMap(([name, value]) => (value === undefined ? [] : [name, String(value)]));
  return { ...request, rawHeaders: [...rawHeaders, ...headers] };
}

type Event = fc.Command<Model, Real>;

const rules = 3;

class Admit implements Event {
  readonly rule: number;
  readonly thread: number;
  readonly sent: Sent;
  readonly times: number;

  constructor(rule: number, thread: number, sent: Sent, times: number) {
    this.rule = rule;
    this.thread = thread;
    this.sent = sent;
    this.times = times;
  }

  check = () => true;

  run(model: Model, real: Real): void {
    const limits = real.limits[this.rule] ?? [];
    for (let time = 0; time < this.times; time++) {
      const expected = model.admit(limits, this.sent);
      const result = real.admit(this.thread, this.rule, this.sent, model.nowMs);
      expect(result.report.decisions.map(({ outcome }) => outcome)).toEqual(expected);
      expect(result.kind).toBe(expected.includes("denied") ? "denied" : "allowed");
      expectState(result, model.countersOf(limits, this.sent), model.nowMs);
    }
  }

  toString = () => `${this.times}× rule ${this.rule} by ${JSON.stringify(this.sent)} on thread ${this.thread}`;
}

function expectState(result: LocalDecision, counters: readonly ModelCounter[], nowMs: number): void {
  const enforced = counters.filter(({ limit }) => limit.mode === "Enforce");
  const deniers = new Set(
    result.report.decisions.flatMap(({ limit, outcome }) => (outcome === "denied" ? limit.counter : [])),
  );
  if (result.kind === "denied") {
    const denying = enforced.filter(({ limit }) => deniers.has(limit.counter));
    const ends = denying.map((counter) => counter.window?.endMs ?? nowMs + windowMsOf(counter.limit));
    const state = counters.find(({ limit }) => limit.counter === result.by.limit.counter)?.state(nowMs);
    expect(result.report.state).toEqual(state);
    expect(result.by.retryAfterSeconds).toBe(Math.ceil((Math.max(...ends) - nowMs) / 1000));
    return;
  }
  const share = ({ available, capacity }: ModelCounter): number =>
    capacity === 0 ? 0 : Math.max(0, available) / capacity;
  const order = (counter: ModelCounter): number => (counter.limit.counts === "requests" ? 0 : 1);
  const [nearest] = enforced.toSorted((one, other) => share(one) - share(other) || order(one) - order(other));
  expect(result.report.state).toEqual(nearest?.state(nowMs));
}

class Charge implements Event {
  readonly reservation: number;
  readonly tokens: number;

  constructor(reservation: number, tokens: number) {
    this.reservation = reservation;
    this.tokens = tokens;
  }

  check = (model: Readonly<Model>) => model.reservations.length > 0;

  run(model: Model, real: Real): void {
    const at = this.reservation % model.reservations.length;
    for (const counter of model.reservations[at]?.tokens ?? []) {
      counter.advance(model.nowMs);
      counter.take(this.tokens, model.nowMs);
    }
    real.reservations[at]?.reservation.charge(tokens(this.tokens), model.nowMs);
  }

  toString = () => `charge ${this.tokens} to reservation ${this.reservation}`;
}

class Refund implements Event {
  readonly reservation: number;

  constructor(reservation: number) {
    this.reservation = reservation;
  }

  check = (model: Readonly<Model>) => model.reservations.length > 0;

  run(model: Model, real: Real): void {
    const at = this.reservation % model.reservations.length;
    const reservation = model.reservations[at];
    if (reservation !== undefined && !reservation.isRefunded) {
      reservation.isRefunded = true;
      for (const { counter, units, window } of reservation.requests) {
        counter.advance(model.nowMs);
        counter.refund(units, window);
      }
    }
    real.reservations[at]?.reservation.refund(model.nowMs);
  }

  toString = () => `refund reservation ${this.reservation}`;
}

class Advance implements Event {
  readonly ms: number;

  constructor(ms: number) {
    this.ms = ms;
  }

  check = () => true;

  run(model: Model): void {
    model.nowMs += this.ms;
  }

  toString = () => `${this.ms} ms pass`;
}

class Recompile implements Event {
  readonly others: readonly LocalLimit[];

  constructor(others: readonly LocalLimit[]) {
    this.others = others;
  }

  check = () => true;

  run(_: Model, real: Real): void {
    real.compile(this.others);
  }

  toString = () => `reload with ${this.others.length} other entries`;
}

const shape = {
  amount: fc.integer({ min: 1, max: 12 }),
  unit: fc.constantFrom("Seconds", "Minutes", "Hours"),
  mode: fc.constantFrom("Enforce", "Enforce", "Shadow"),
  key: fc.constantFrom(undefined, 'request.headers["x-api-key"]'),
  when: fc.constantFrom(undefined, undefined, 'request.headers["x-exempt"] != "true"'),
} as const;

const amountFrom = 'int(request.headers["x-limit"])';
const cost = 'int(request.headers["x-cost"])';

/** Leaves out what is undefined, and names the counter by all that distinguishes it. */
function withIdentity(make: (shape: Partial<LocalLimit>) => LocalLimit, shape: object): LocalLimit {
  const defined: Partial<LocalLimit> = Object.fromEntries(
    Object.entries(shape).filter(([, value]) => value !== undefined),
  );
  const limit = make(defined);
  const { when = "", amountFrom: from = "", cost: by = "" } = limit;
  return { ...limit, counter: `${limit.counter} ${when} ${from} ${by}` };
}

const sentRequest: fc.Arbitrary<Sent> = fc.record({
  client: fc.constantFrom(undefined, "ann", "ben"),
  isExempt: fc.constantFrom(false, false, true),
  limit: fc.option(fc.nat(12), { nil: undefined }),
  cost: fc.option(fc.nat(4), { nil: undefined }),
});

/** Entries as one target's policies would have them: no two share an identity. */
function limitsOf(target: string): fc.Arbitrary<LocalLimit[]> {
  const costs = fc.constantFrom(undefined, undefined, cost);
  const bursting = fc.record({ ...shape, burst: fc.integer({ min: 0, max: 8 }), cost: costs });
  const byRequest = fc.record({ ...shape, amountFrom: fc.constant(amountFrom), cost: costs });
  const entry = fc.oneof(
    fc.oneof(bursting, byRequest).map((fields) => withIdentity(requestsLimit, { ...fields, target })),
    fc
      .record({ ...shape, amountFrom: fc.constantFrom(undefined, undefined, amountFrom) })
      .map((fields) => withIdentity(tokensLimit, { ...fields, target })),
  );
  return fc.uniqueArray(entry, { maxLength: 3, selector: ({ counter }) => counter });
}

/** Three rules: each has entries of its own, and all have those of the Gateway. */
const configuration = fc
  .tuple(limitsOf("Gateway/default/public"), ...Array.from({ length: rules }, (_, at) => limitsOf(`HTTPRoute/${at}`)))
  .map(([gateway, ...routes]) => routes.map((own) => [...own, ...gateway]));

const events = [
  fc
    .tuple(fc.nat(rules - 1), fc.nat(1), sentRequest, fc.oneof(fc.constant(1), fc.nat(30)))
    .map((args) => new Admit(...args)),
  fc.tuple(fc.nat(), fc.oneof(fc.integer({ min: 1, max: 30 }), fc.constant(1e12))).map((args) => new Charge(...args)),
  fc.nat().map((reservation) => new Refund(reservation)),
  fc
    .oneof(
      fc.integer({ min: 0, max: 1_500 }),
      fc.constantFrom(1, 999, 1_000, 1_001, 59_999, 60_000, 60_001, 3_600_000, 7_300_000),
      fc.integer({ min: 0, max: 8_000_000 }).map((eighths) => eighths / 8),
    )
    .map((ms) => new Advance(ms)),
  limitsOf("HTTPRoute/elsewhere").map((others) => new Recompile(others)),
];

describe("properties of the limiter", () => {
  test("bursts, clock steps, keys, charges, refunds and reloads on two threads give the results of the model", () => {
    fc.assert(
      fc.property(configuration, fc.commands(events, { maxCommands: 120, size: "max" }), (limits, commands) => {
        fc.modelRun(() => ({ model: new Model(), real: new Real(limits) }), commands);
      }),
      { numRuns: 300 },
    );
    // Thousands of steps take long on a busy machine.
  }, 90_000);

  test("from the first request on, at most capacity + amount × whole units passed, whenever requests come", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 0, max: 20 }),
        fc.array(fc.double({ min: 0, max: 90_000, noNaN: true }), { minLength: 1, maxLength: 400 }),
        (amount, burst, gapsMs) => {
          const set = compileLimits([requestsLimit({ amount, burst })], new CounterTable(createCounters(16, 2), 1));
          let nowMs = 5_000_000.25;
          const startMs = nowMs;
          let passed = 0;
          for (const gapMs of gapsMs) {
            if (set.decide(request, nowMs).kind === "allowed") passed++;
            expect(passed).toBeLessThanOrEqual(amount + burst + amount * Math.floor((nowMs - startMs) / 60_000));
            // Short gaps more often than long ones, or nothing would ever be denied.
            nowMs += gapMs < 80_000 ? gapMs / 1_000 : gapMs;
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  test("a clock that a thread read too early corrupts nothing", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -50, max: 200 }), { maxLength: 500 }), (steps) => {
        const set = compileLimits(
          [requestsLimit({ amount: 5, burst: 2, unit: "Seconds" })],
          new CounterTable(createCounters(16, 2), 1),
        );
        let nowMs = 1_000_000;
        for (const step of steps) {
          nowMs += step;
          const { state } = set.decide(request, nowMs).report;
          expect(state?.remaining).toBeGreaterThanOrEqual(0);
          expect(state?.remaining).toBeLessThan(7);
          expect(state?.resetSeconds).toBe(1);
        }
      }),
    );
  });
});
