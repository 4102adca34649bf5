import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import { CounterTable } from "./store/counter-table.ts";
import { MemoryStore } from "./store/memory-store.ts";
import { createCore } from "./testing/acceptance/core.ts";
import { describeCases } from "./testing/acceptance/run-cases.ts";

describeCases("the core with the memory store", (settings) => {
  const { service, clock } = createCore(
    (time) => new MemoryStore(new CounterTable(createCounterMemory(4_096), 1), time),
    settings,
  );
  return Promise.resolve({
    ask: (request) => Promise.resolve(service.shouldRateLimit(request)),
    advance: (seconds) => clock.advance(seconds * 1_000),
    close: () => Promise.resolve(),
  });
});
