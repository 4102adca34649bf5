/** `GET /memory`: the memory of the process, by thread. All figures are bytes unless their names say otherwise. */
import * as z from "zod";
import { count, type Immutable } from "./shape.ts";

const threadMemory = z.object({
  thread: z.string().describe("`main`, `worker 1`."),
  heapUsed: count.describe("Live objects and garbage that is not collected yet."),
  heapTotal: count.describe("Memory that V8 has reserved for the heap."),
  heapLimit: count.describe("The maximum size of the heap, at which V8 ends the process."),
  mallocedMemory: count.describe("Memory that V8 itself has allocated outside of the heap."),
  external: count.describe("Memory outside of the heap that belongs to objects, such as buffers."),
  spaces: z
    .array(z.object({ name: z.string(), size: count, used: count, available: count, physical: count }))
    .describe("Spaces of V8's heap, as V8 names them."),
});

/** The response of `GET /memory`. */
export const memorySchema = z.object({
  process: z.object({
    rss: count.describe("Resident set size."),
    heapTotal: count,
    heapUsed: count,
    external: count,
    arrayBuffers: count,
    uptimeSeconds: z.number().min(0),
  }),
  threads: z.array(threadMemory).describe("The main thread, then the workers by number."),
  counters: z
    .object({
      bytes: count.describe("Size of the shared table. The system provides only pages that were written to."),
      capacity: count.describe("Maximum number of counters."),
      open: count.describe("Number of counters whose window is open."),
      evictions: count.describe("Open counters that were evicted from a full table since the start."),
    })
    .describe("The counters of local limits, shared by all workers."),
});
/** The response of `GET /memory`. */
export type Memory = Immutable<z.output<typeof memorySchema>>;
/** The memory of one thread. */
export type ThreadMemory = Memory["threads"][number];
