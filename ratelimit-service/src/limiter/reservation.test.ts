import { MemoryStore } from "../store/memory-store.ts";
import { createStoreMemory, MemoryTables } from "../store/memory-tables.ts";
import { describeReservations } from "../testing/reservation-contract.ts";

const open = (clock: ConstructorParameters<typeof MemoryStore>[1]) =>
  new MemoryStore(new MemoryTables(createStoreMemory(1_024), 1), clock);

describeReservations("memory", () => Promise.resolve(open), true);
