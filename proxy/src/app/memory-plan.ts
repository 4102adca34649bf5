/** The default distribution of the memory that a process may use. */
import { defaultBodyMemoryBytes } from "../pipeline/body/body-budget.ts";
import { defaultClientBytes } from "../listen/client-connections.ts";

const mib = 1024 * 1024;

/** Memory of a worker under load without request bodies: heap, code, and client connections. */
export const bytesPerWorker = 192 * mib;
/** The minimum share of `bytesPerWorker` for connections of clients and their headers. */
const minClientBytes = 96 * mib;
/** Memory of the main thread, with configuration and counters. */
export const mainBytes = 128 * mib;
/** The maximum share of a memory limit for bodies, and the minimum memory for bodies: one LLM request may need it. */
const maxBodyShare = 1 / 4;
const minBodyBytes = 32 * mib;

/** A higher limit counts as no limit, because kernels report such a number if there is none. */
const maxLimit = 2 ** 50;
const minWorkerHeapMib = 128;

/** The maximum number of workers in a pod without a memory limit. */
const maxUnboundedWorkers = 2;

/**
 * Returns the number of CPUs for which workers are planned. A pod without a limit sees all CPUs of its node, which it
 * shares with other pods, and each worker takes memory that the pod has not requested.
 *
 * @param limit As for `memoryPlan`.
 */
export function plannedCpus(cpus: number, limit: number, isInPod: boolean): number {
  const hasLimit = limit > 0 && limit <= maxLimit;
  return isInPod && !hasLimit ? Math.min(cpus, maxUnboundedWorkers) : cpus;
}

/** The number of workers, and maximum amounts of memory of the process in bytes. */
export interface MemoryPlan {
  readonly workers: number;
  readonly bodyBytes: number;
  /** Memory for connections of clients and their headers, of all workers together. */
  readonly clientBytes: number;
}

/**
 * Returns the maximum heap of one worker in MiB: an equal share of `limit` minus the memory of the main thread and of
 * bodies; undefined if there is no limit. V8 would otherwise let each heap grow to half of the limit before a full
 * garbage collection. A worker that needs more is replaced while the others serve; beyond `limit`, the kernel would
 * kill the whole process.
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
  const share = Math.floor((limit * maxBodyShare) / mib) * mib;
  const bodyBytes = Math.min(defaultBodyMemoryBytes, Math.max(minBodyBytes, share));
  const available = limit - mainBytes;
  // Under a small limit, the memory of one worker takes precedence over bodies.
  const fittingBodyBytes = Math.max(
    minBodyBytes,
    Math.min(bodyBytes, Math.floor((available - bytesPerWorker) / mib) * mib),
  );
  const workers = Math.max(1, Math.min(cpus, Math.floor((available - fittingBodyBytes) / bytesPerWorker)));
  const spare = Math.floor((available - fittingBodyBytes) / workers - bytesPerWorker);
  const perWorker = Math.min(defaultClientBytes, minClientBytes + Math.max(0, spare));
  return { workers, bodyBytes: fittingBodyBytes, clientBytes: Math.floor((perWorker * workers) / mib) * mib };
}
