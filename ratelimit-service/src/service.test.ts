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
