/** `GET /memory`: what the process holds, thread by thread. All figures are bytes unless their names say otherwise. */
import * as z from "zod";
import { count, type Immutable } from "./shape.ts";

const threadMemory = z.object({
  thread: z.string().describe("`main`, `worker 1`."),
  heapUsed: count.describe("Live objects and garbage that has not been collected yet."),
  heapTotal: count.describe("What V8 has reserved for the heap."),
  heapLimit: count.describe("Where V8 gives up."),
  mallocedMemory: count.describe("What V8 itself has allocated beside the heap."),
  external: count.describe("Memory outside the heap that objects in it hold, buffers among it."),
  spaces: z
    .array(z.object({ name: z.string(), size: count, used: count, available: count, physical: count }))
    .describe("Spaces of V8's heap, as V8 names them."),
});

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
      bytes: count.describe("Size of the shared table; the system provides only what has been touched."),
      capacity: count.describe("Counters that fit."),
      open: count.describe("Counters whose window is open."),
      evictions: count.describe("Open counters that were forgotten for want of room, since the start."),
    })
    .describe("The counters of local limits, shared by all workers."),
});
export type Memory = Immutable<z.output<typeof memorySchema>>;
export type ThreadMemory = Memory["threads"][number];
