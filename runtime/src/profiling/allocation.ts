/** How V8 allocates memory, and when it collects garbage. Settings apply to all threads, at once. */
import { getHeapStatistics, setFlagsFromString } from "node:v8";

/**
 * Makes all threads allocate new objects in the young generation. V8 records which allocation sites create long-lived
 * objects, and then allocates their objects in the old generation ("pretenuring"). After an idle time these records are
 * wrong: the young generation has shrunk, so at the first burst nearly everything in it is still in use. From then on
 * those sites fill the old generation with short-lived objects, which only a full collection frees. Collections get
 * longer and requests take more CPU, for minutes.
 *
 * Call it before threads are started and code is loaded.
 */
export function disablePretenuring(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
}

/**
 * Makes V8 count the memory of buffers in the limit at which it collects the whole heap. Without it, V8 starts a full
 * collection whenever 64 MiB of buffers were allocated since the last one. A body of 100 MB is read through buffers of
 * 64 KiB, and nearly all of them are garbage by then, but each collection also marks the whole heap. The limit adapts
 * to what is in use, so the garbage stays bounded. Call it before threads are started.
 */
export function countBuffersInHeapLimit(): void {
  setFlagsFromString("--external-memory-accounted-in-global-limit");
}

/** The size of a heap with thousands of routes, in bytes. */
const largeHeapBytes = 96 * 1024 * 1024;
/** With less, changes of a large configuration take more processor time for collections. */
const growthPercent = 50;

let isGrowthBounded = false;

/**
 * Makes V8 collect a whole heap when it has grown by half since the last collection, if the calling thread has a large
 * one. By default, a heap grows up to four times, and keeps the garbage of the last changes until the next ones. The
 * garbage of a small heap is that of requests, which cost more if it is collected sooner. Call it after each change of
 * the configuration.
 */
export function boundHeapGrowth(): void {
  const isLarge = getHeapStatistics().used_heap_size > largeHeapBytes;
  if (isLarge === isGrowthBounded) return;
  isGrowthBounded = isLarge;
  setFlagsFromString(`--heap-growing-percent=${isLarge ? growthPercent : 0}`);
}
