/**
 * Samples what a thread allocates, from its start on, so that a heap profile can be taken at any time: V8 knows the
 * stack of an allocation only if it sampled the allocation. Collected objects are dropped from the samples.
 */
import { Session } from "node:inspector";
import { getHeapStatistics } from "node:v8";

/** Average number of bytes between samples: one stack walk in every few dozen requests. */
export const samplingInterval = 524_288;

let session: Session | undefined;

const notStarted = "this thread has not called startHeapSampling";

/**
 * Starts to sample the calling thread, until it ends. Call it before the code that the profile should name is loaded.
 */
export function startHeapSampling(): void {
  if (session !== undefined) return;
  session = new Session();
  session.connect();
  session.post("HeapProfiler.startSampling", { samplingInterval });
}

/** The size of a heap, in bytes, of which a collection takes longer than some 50 ms. */
const largeHeapBytes = 64 * 1024 * 1024;

/**
 * Collects the garbage of the calling thread and returns the free memory to the system, as soon as no JavaScript runs.
 * Takes some 30 ms; does nothing where it would take much longer. For the end of a start, which leaves more garbage
 * than V8 returns before it allocates as much again. Throws if sampling has not been started.
 */
export function collectGarbage(): void {
  if (session === undefined) throw new Error(notStarted);
  if (getHeapStatistics().used_heap_size > largeHeapBytes) return;
  session.post("HeapProfiler.collectGarbage");
}

/**
 * Returns the live allocations of the calling thread, by stack, as V8's JSON. Throws if sampling has not been started.
 */
export function readHeapSamples(): string {
  if (session === undefined) throw new Error(notStarted);
  let text: string | undefined;
  // In a session with its own thread the callback runs before `post` returns.
  session.post("HeapProfiler.getSamplingProfile", (error, result) => {
    if (error !== null) throw error;
    text = JSON.stringify(result.profile);
  });
  if (text === undefined) throw new Error("V8 gave no samples");
  return text;
}
