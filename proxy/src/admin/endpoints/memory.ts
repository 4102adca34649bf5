/** `/memory`: the memory of the process and of each thread. */
import { getHeapSpaceStatistics, getHeapStatistics } from "node:v8";
import type { Memory, ThreadMemory } from "@gatewayproxy/admin-api/memory";
import type { AdminEndpoint } from "../endpoint.ts";

/** The endpoint of memory figures, which `collect` reads for each request. */
export function memoryEndpoint(collect: () => Promise<Memory>): AdminEndpoint {
  return {
    path: "/memory",
    query: [],
    summary: "Memory of the process, of each thread's heap and of the counters.",
    methods: { GET: async () => ({ kind: "json", value: await collect() }) },
  };
}

/**
 * Returns the memory of the calling thread.
 *
 * @param thread Its name.
 */
export function readThreadMemory(thread: string): ThreadMemory {
  const heap = getHeapStatistics();
  return {
    thread,
    heapUsed: heap.used_heap_size,
    heapTotal: heap.total_heap_size,
    heapLimit: heap.heap_size_limit,
    mallocedMemory: heap.malloced_memory,
    external: heap.external_memory,
    spaces: getHeapSpaceStatistics().map((space) => ({
      name: space.space_name,
      size: space.space_size,
      used: space.space_used_size,
      available: space.space_available_size,
      physical: space.physical_space_size,
    })),
  };
}

/** Returns the memory of the whole process; `process.memoryUsage` counts every thread. */
export function readProcessMemory(): Memory["process"] {
  return { ...process.memoryUsage(), uptimeSeconds: process.uptime() };
}
