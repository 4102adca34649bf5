import { silentLogger } from "@gatewayproxy/runtime/log";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import type { ResolvedName } from "@gatewayproxy/runtime/host-names";
import { NameWatch } from "./name-watch.ts";

/** A watch whose questions are answered by hand, one after the other. */
function watch() {
  const clock = new FakeClock();
  const asked: { answer: (addresses: readonly string[], ttlMs: number) => Promise<void>; fail: () => Promise<void> }[] =
    [];
  let changes = 0;
  const resolve = (): Promise<ResolvedName> =>
    new Promise((taken, refused) => {
      asked.push({
        answer: (addresses, ttlMs) => settled(() => taken({ addresses, ttlMs })),
        fail: () => settled(() => refused(new Error("no such name"))),
      });
    });
  const name = new NameWatch({ log: silentLogger, host: "api.example", clock, resolve, onChange: () => changes++ });
  return { name, clock, asked, changes: () => changes };
}

/** Lets what waits for the answer run. */
async function settled(act: () => void): Promise<void> {
  act();
  await new Promise(setImmediate);
}

describe("a host name", () => {
  test("has no address before the first answer", () => {
    expect(watch().name.addresses).toEqual([]);
  });

  test("has all its addresses, each once", async () => {
    const { name, asked, changes } = watch();
    await asked[0]?.answer(["10.0.0.2", "::1", "10.0.0.1", "10.0.0.2"], 60_000);
    expect(name.addresses).toEqual(["10.0.0.1", "10.0.0.2", "::1"]);
    expect(changes()).toBe(1);
  });

  test("is asked for again when its time to live has passed, and not before", async () => {
    const { clock, asked } = watch();
    await asked[0]?.answer(["10.0.0.1"], 60_000);
    clock.advance(59_999);
    expect(asked).toHaveLength(1);
    clock.advance(1);
    expect(asked).toHaveLength(2);
  });

  test.each([
    ["never more often than every second", 0, 1_000],
    ["never less often than every five minutes", 86_400_000, 300_000],
  ])("is asked for %s", async (_case, ttlMs, waitMs) => {
    const { clock, asked } = watch();
    await asked[0]?.answer(["10.0.0.1"], ttlMs);
    clock.advance(waitMs - 1);
    expect(asked).toHaveLength(1);
    clock.advance(1);
    expect(asked).toHaveLength(2);
  });

  test("keeps its addresses when a renewal fails, and asks again soon", async () => {
    const { name, clock, asked, changes } = watch();
    await asked[0]?.answer(["10.0.0.1"], 60_000);
    clock.advance(60_000);
    await asked[1]?.fail();
    expect(name.addresses).toEqual(["10.0.0.1"]);
    clock.advance(5_000);
    expect(asked).toHaveLength(3);
    expect(changes()).toBe(1);
  });

  test("tells of a change of its addresses, not of their order", async () => {
    const { clock, asked, changes } = watch();
    await asked[0]?.answer(["10.0.0.1", "10.0.0.2"], 1_000);
    clock.advance(1_000);
    await asked[1]?.answer(["10.0.0.2", "10.0.0.1"], 1_000);
    expect(changes()).toBe(1);
    clock.advance(1_000);
    await asked[2]?.answer(["10.0.0.3"], 1_000);
    expect(changes()).toBe(2);
  });

  test("is not asked for any more once nobody wants it, whatever is under way", async () => {
    const { name, clock, asked, changes } = watch();
    name.close();
    await asked[0]?.answer(["10.0.0.1"], 1_000);
    clock.advance(10_000);
    expect(asked).toHaveLength(1);
    expect(changes()).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });
});
