/** The default distribution of the memory that a process may use. */
import { defaultBodyMemoryBytes } from "../server/body-budget.ts";
import { defaultClientBytes } from "../server/client-connections.ts";

const mib = 1024 * 1024;

/** Memory of a worker under load without request bodies: heap, code, and client connections. */
export const bytesPerWorker = 192 * mib;
/** The least part of it for connections of clients and their headers. */
const minClientBytes = 96 * mib;
/** Memory of the main thread, with configuration and counters. */
export const mainBytes = 128 * mib;
/** The greatest part of a limit for bodies, and their least memory, which one LLM request may need. */
const bodyPart = 1 / 4;
const minBodyBytes = 32 * mib;

/** A higher limit counts as no limit: kernels report an absent one as such a number. */
const maxLimit = 2 ** 50;
const minWorkerHeapMib = 128;

/** The number of workers, and maximum amounts of memory of the process in bytes. */
export interface MemoryPlan {
  readonly workers: number;
  readonly bodyBytes: number;
  /** For connections of clients and their headers, of all workers together. */
  readonly clientBytes: number;
}

/**
 * Returns the maximum heap of one worker in MiB: an equal part of what the main thread and bodies leave of `limit`;
 * undefined without a limit. V8 would otherwise let each heap grow to half of the limit before a full garbage
 * collection. A worker that needs more is replaced while the others serve; the kernel would kill the process with all
 * of them.
 *
 * @param limit As for `memoryPlan`.
 * @param bodyBytes The bytes of request bodies of all workers, which are outside of the heaps.
 */
export function workerHeapMib(workers: number, limit: number, bodyBytes: number): number | undefined {
  if (limit <= 0 || limit > maxLimit) return undefined;
  return Math.max(minWorkerHeapMib, Math.floor((limit - mainBytes - bodyBytes) / workers / mib));
}

/**
 * Returns the defaults for workers and memory. Together with the main thread they stay below `limit`, if that is enough
 * for one worker (352 MiB).
 *
 * @param limit Bytes that the process may use; 0, or more than any machine has, means no limit.
 */
export function memoryPlan(cpus: number, limit: number): MemoryPlan {
  if (limit <= 0) {
    return { workers: cpus, bodyBytes: defaultBodyMemoryBytes, clientBytes: cpus * defaultClientBytes };
  }
  const share = Math.floor((limit * bodyPart) / mib) * mib;
  const bodyBytes = Math.min(defaultBodyMemoryBytes, Math.max(minBodyBytes, share));
  const left = limit - mainBytes;
  // With a small limit the memory of one worker comes first.
  const fitting = Math.max(minBodyBytes, Math.min(bodyBytes, Math.floor((left - bytesPerWorker) / mib) * mib));
  const workers = Math.max(1, Math.min(cpus, Math.floor((left - fitting) / bytesPerWorker)));
  const spare = Math.floor((left - fitting) / workers - bytesPerWorker);
  const perWorker = Math.min(defaultClientBytes, minClientBytes + Math.max(0, spare));
  return { workers, bodyBytes: fitting, clientBytes: Math.floor((perWorker * workers) / mib) * mib };
}
