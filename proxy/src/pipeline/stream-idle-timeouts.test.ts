import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { usedMemory } from "../../../test/support/memory.ts";
import { type Stallable, StreamIdleTimeouts } from "./stream-idle-timeouts.ts";

function waitingRequest(): Stallable {
  return {
    client: "10.0.0.1",
    delaysOthers: false,
    progress: () => 0,
    endStalled: () => undefined,
    stallState: undefined,
  };
}

test("a request that has ended since the last check is not kept in memory", async () => {
  const clock = new FakeClock();
  const live = new Set<Stallable>();
  const watch = new StreamIdleTimeouts({
    clock,
    timeoutMs: 80_000,
    contendedTimeoutMs: 0,
    isContended: () => false,
    requests: () => live,
  });
  const seen = ((): WeakRef<Stallable> => {
    const request = waitingRequest();
    live.add(request);
    return new WeakRef(request);
  })();
  clock.advance(10_000);
  expect(seen.deref()?.stallState).toMatchObject({ progress: 0 });
  live.clear();
  await usedMemory();
  expect(seen.deref()).toBeUndefined();
  watch.close();
});
