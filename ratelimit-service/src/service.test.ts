import { expect, test } from "vitest";
import { onFirstCall } from "./service.ts";
import { createStoreMemory, MemoryTables } from "./store/memory-tables.ts";
import { MemoryStore } from "./store/memory-store.ts";
import { createCore } from "./testing/acceptance/core.ts";
import { describeCases } from "./testing/acceptance/run-cases.ts";

describeCases("the core with the memory store", (settings) => {
  const { service, clock } = createCore(
    (time) => new MemoryStore(new MemoryTables(createStoreMemory(4_096), 1), time),
    settings,
  );
  return Promise.resolve({
    ask: (request) => Promise.resolve(service.shouldRateLimit(request)),
    advance: (seconds) => clock.advance(seconds * 1_000),
    close: () => Promise.resolve(),
  });
});

test("the first call is announced before it is decided, and no later one", () => {
  const events: string[] = [];
  const response = { overallCode: "OK", statuses: [], responseHeaders: [] } as const;
  const decide = (): typeof response => {
    events.push("decided");
    return response;
  };
  const service = onFirstCall({ shouldRateLimit: decide }, () => events.push("announced"));
  expect(events).toEqual([]);
  for (let calls = 0; calls < 2; calls++) {
    expect(service.shouldRateLimit({ domain: "d", descriptors: [], hitsAddend: 1 })).toBe(response);
  }
  expect(events).toEqual(["announced", "decided", "decided"]);
});
