/**
 * Random providers, behaviors and pauses beside a plain model of the documented rules: each provider gets a request at
 * most once, in the order of the priorities and of the state that the model has, and the limit is charged once, by the
 * provider whose response the client gets. If that is an error, and one before may bill the request, it is an estimate.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RequestRecord } from "../../proxy/src/telemetry/request-record.ts";
import {
  type Behavior,
  cutAfterEvent,
  ok,
  opened,
  reset,
  startFailover,
  status,
  stream,
} from "../support/scripted-providers.ts";

const kinds = [
  "ok",
  "usedUp",
  "denied",
  "deniedFor30s",
  "error",
  "reset",
  "cutBefore",
  "cutAfter",
  "rejected",
] as const;
type Kind = (typeof kinds)[number];

const usageOf = (place: number) => ({ prompt_tokens: 30, completion_tokens: place, total_tokens: 30 + place });

function behaviorOf(kind: Kind, place: number): Behavior {
  const budget = { "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "40s" };
  switch (kind) {
    case "ok":
      return stream("text", {}, usageOf(place));
    case "usedUp":
      return ok("text", budget, usageOf(place));
    case "denied":
      return status(429);
    case "deniedFor30s":
      return status(429, { "retry-after": "30" });
    case "error":
      return status(503);
    case "reset":
      return reset;
    case "cutBefore":
      return opened(": comment\n\n", "cut");
    case "cutAfter":
      return cutAfterEvent;
    case "rejected":
      return status(400);
  }
}

/** What the model knows of a provider. */
interface State {
  failures: number;
  ejections: number;
  failingUntilMs: number;
  outUntilMs: number;
  withoutReset: number;
}

const fresh = (): State => ({ failures: 0, ejections: 0, failingUntilMs: 0, outUntilMs: 0, withoutReset: 0 });

/** The documented effect of a behavior on a provider. */
function learn(state: State, kind: Kind, nowMs: number): void {
  if (kind === "ok" || kind === "cutAfter" || kind === "rejected") Object.assign(state, fresh());
  if (kind === "usedUp") state.outUntilMs = Math.max(state.outUntilMs, nowMs + 40_000);
  if (kind === "deniedFor30s") state.outUntilMs = Math.max(state.outUntilMs, nowMs + 30_000);
  if (kind === "denied") {
    state.outUntilMs = Math.max(state.outUntilMs, nowMs + Math.min(60_000, 10_000 * 2 ** state.withoutReset++));
  }
  if (kind !== "error" && kind !== "reset" && kind !== "cutBefore") return;
  if (++state.failures < 5 || state.failingUntilMs > nowMs) return;
  state.failingUntilMs = nowMs + Math.min(300_000, 10_000 * 2 ** state.ejections++);
}

interface Listed {
  readonly priority: number;
  readonly weight: number;
}

/** The places that may be next: those of the lowest priority, the failing ones last. */
function candidates(list: readonly Listed[], states: readonly State[], tried: ReadonlySet<number>, nowMs: number) {
  const usable = list.flatMap(({ priority }, place) => {
    const { outUntilMs, failingUntilMs } = states[place] ?? fresh();
    if (tried.has(place) || outUntilMs > nowMs) return [];
    return [{ place, rank: priority + (failingUntilMs > nowMs ? 100 : 0) }];
  });
  const lowest = Math.min(...usable.map(({ rank }) => rank));
  return usable.filter(({ rank }) => rank === lowest).map(({ place }) => place);
}

const mayHaveCost = (kind: Kind): boolean => kind === "reset" || kind === "cutBefore";
const movesOn = (kind: Kind): boolean => kind.startsWith("denied") || kind === "error" || mayHaveCost(kind);

/** Follows the attempts of a request. @returns what its client and the limit must see. */
function replay(
  list: readonly Listed[],
  states: readonly State[],
  script: readonly Kind[],
  record: RequestRecord,
  nowMs: number,
) {
  const tried = new Set<number>();
  const places = [...record.failovers.map(({ provider }) => provider), record.provider ?? ""].map((key) =>
    Number(/p(\d)$/.exec(key)?.[1] ?? -1),
  );
  if (record.provider === undefined) {
    expect(candidates(list, states, tried, nowMs)).toEqual([]);
    return { status: 503, tokens: 0, reached: [] };
  }
  let costly = false;
  for (const [step, place] of places.entries()) {
    expect(candidates(list, states, tried, nowMs)).toContain(place);
    tried.add(place);
    const kind = script[place] ?? "ok";
    const state = states[place] ?? fresh();
    // A stream that cannot move is not held, so its head is a success.
    const isHeld = !costly && candidates(list, states, tried, nowMs).length > 0;
    learn(state, kind === "cutBefore" && !isHeld ? "cutAfter" : kind, nowMs);
    const isLast = step === places.length - 1;
    const couldMove =
      movesOn(kind) && !(mayHaveCost(kind) && costly) && candidates(list, states, tried, nowMs).length > 0;
    expect(couldMove).toBe(!isLast);
    costly ||= mayHaveCost(kind);
  }
  const last = places.at(-1) ?? 0;
  const kind = script[last] ?? "ok";
  const mayBeBilled = places.slice(0, -1).some((place) => mayHaveCost(script[place] ?? "ok"));
  return { ...clientOutcome(kind, last, record, mayBeBilled), reached: places };
}

function clientOutcome(kind: Kind, place: number, record: RequestRecord, mayBeBilled: boolean) {
  const estimate = record.usage?.total ?? -1;
  if (kind === "ok" || kind === "usedUp") return { status: 200, tokens: 30 + place };
  // Without another provider, a stream is not held until its first event.
  if (kind === "cutAfter" || kind === "cutBefore") return { status: 200, tokens: estimate };
  const tokens = mayBeBilled ? estimate : 0;
  if (kind === "rejected") return { status: 400, tokens };
  if (kind === "error") return { status: 503, tokens };
  return { status: kind === "reset" ? 502 : 429, tokens };
}

const listed = fc.record({ priority: fc.integer({ min: 0, max: 2 }), weight: fc.integer({ min: 1, max: 3 }) });
const scenario = fc.record({
  list: fc.array(listed, { minLength: 1, maxLength: 4 }),
  requests: fc.array(
    fc.record({
      pauseMs: fc.constantFrom(0, 0, 0, 500, 9_999, 15_000, 61_000),
      script: fc.array(fc.constantFrom(...kinds), { minLength: 4, maxLength: 4 }),
    }),
    { minLength: 1, maxLength: 20 },
  ),
});

test("requests follow the rules, whatever the providers do", { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ list, requests }) => {
      const failover = await startFailover(
        list.map((entry, place) => ({ ...entry, name: `p${place}`, script: [status(500)] })),
      );
      const states = list.map(fresh);
      let total = 0;
      for (const { pauseMs, script } of requests) {
        failover.gateway.clock.advance(pauseMs);
        failover.providers.forEach((provider, place) => provider.behave(behaviorOf(script[place] ?? "ok", place)));
        const before = failover.providers.map(({ received }) => received.length);
        const ended = failover.gateway.nextRecord();
        const response = await failover.chat({ stream: true });
        await response.text().catch(() => "cut");
        const record = await ended;
        const expected = replay(list, states, script, record, failover.gateway.clock.monotonicMs());
        expect(response.status).toBe(expected.status);
        const reached = failover.providers.map(({ received }, place) => received.length - (before[place] ?? 0));
        expect(reached).toEqual(list.map((_, place) => (expected.reached.includes(place) ? 1 : 0)));
        total += expected.tokens;
        expect(await failover.charged()).toBe(total);
      }
    }),
    { numRuns: Number(process.env["FAILOVER_RUNS"] ?? 25) },
  );
});
