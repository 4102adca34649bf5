import { silentLogger } from "@gatewayproxy/runtime/log";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import type { ResolvedName } from "@gatewayproxy/runtime/host-names";
import { HostResolver } from "./host-resolver.ts";
import { NameBudget } from "./name-budget.ts";

/** A resolver with queries that the test responds to. */
function watch() {
  const clock = new FakeClock();
  const queries: {
    respond: (addresses: readonly string[], ttlMs: number) => Promise<void>;
    fail: () => Promise<void>;
  }[] = [];
  let changes = 0;
  const resolve = (): Promise<ResolvedName> =>
    new Promise((taken, failed) => {
      queries.push({
        respond: (addresses, ttlMs) => settled(() => taken({ addresses, ttlMs })),
        fail: () => settled(() => failed(new Error("no such name"))),
      });
    });
  const budget = new NameBudget();
  const onChange = (): void => void changes++;
  const own = { host: "api.example", namespace: "default" };
  const name = new HostResolver({ ...own, log: silentLogger, budget, clock, resolve, onChange });
  return { name, clock, queries, changes: () => changes };
}

/** Lets code that waits for the response run. */
async function settled(act: () => void): Promise<void> {
  act();
  await new Promise(setImmediate);
}

describe("a host name", () => {
  test("has no address before the first response", () => {
    expect(watch().name.addresses).toEqual([]);
  });

  test("has all its addresses, each once", async () => {
    const { name, queries, changes } = watch();
    await queries[0]?.respond(["10.0.0.2", "::1", "10.0.0.1", "10.0.0.2"], 60_000);
    expect(name.addresses).toEqual(["10.0.0.1", "10.0.0.2", "::1"]);
    expect(changes()).toBe(1);
  });

  test("is queried for again when its time to live has passed, and not before", async () => {
    const { clock, queries } = watch();
    await queries[0]?.respond(["10.0.0.1"], 60_000);
    clock.advance(59_999);
    expect(queries).toHaveLength(1);
    clock.advance(1);
    expect(queries).toHaveLength(2);
  });

  test.each([
    ["never more often than every second", 0, 1_000],
    ["never less often than every five minutes", 86_400_000, 300_000],
  ])("is queried for %s", async (_case, ttlMs, waitMs) => {
    const { clock, queries } = watch();
    await queries[0]?.respond(["10.0.0.1"], ttlMs);
    clock.advance(waitMs - 1);
    expect(queries).toHaveLength(1);
    clock.advance(1);
    expect(queries).toHaveLength(2);
  });

  test("keeps its addresses when a renewal fails, and asks again soon", async () => {
    const { name, clock, queries, changes } = watch();
    await queries[0]?.respond(["10.0.0.1"], 60_000);
    clock.advance(60_000);
    await queries[1]?.fail();
    expect(name.addresses).toEqual(["10.0.0.1"]);
    clock.advance(5_000);
    expect(queries).toHaveLength(3);
    expect(changes()).toBe(1);
  });

  test("reports a change of its addresses, not of their order", async () => {
    const { clock, queries, changes } = watch();
    await queries[0]?.respond(["10.0.0.1", "10.0.0.2"], 1_000);
    clock.advance(1_000);
    await queries[1]?.respond(["10.0.0.2", "10.0.0.1"], 1_000);
    expect(changes()).toBe(1);
    clock.advance(1_000);
    await queries[2]?.respond(["10.0.0.3"], 1_000);
    expect(changes()).toBe(2);
  });

  test("sends no query after it is closed, even with one in progress", async () => {
    const { name, clock, queries, changes } = watch();
    name.close();
    await queries[0]?.respond(["10.0.0.1"], 1_000);
    clock.advance(10_000);
    expect(queries).toHaveLength(1);
    expect(changes()).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });
});
