/** How the memory that a process may take is shared out, where no setting says otherwise. */
import { defaultBodyMemoryBytes } from "../server/body-budget.ts";
import { defaultClientBytes } from "../server/client-connections.ts";

const mib = 1024 * 1024;

/** What a worker takes under load besides request bodies: heap, code, and what it has for clients. */
export const bytesPerWorker = 192 * mib;
/** Of that, at least, for connections of clients and their headers. */
const minClientBytes = 96 * mib;
/** Of the main thread, with configuration and counters. */
export const mainBytes = 128 * mib;
/** Bodies have at most this part of a limit, and not less than one LLM request may take. */
const bodyPart = 1 / 4;
const minBodyBytes = 32 * mib;

/** A limit beyond it is none: kernels tell an absent one as a number of this kind. */
const maxLimit = 2 ** 50;
const minWorkerHeapMib = 128;

export interface MemoryPlan {
  readonly workers: number;
  readonly bodyBytes: number;
  /** For connections of clients and their headers, of all workers. */
  readonly clientBytes: number;
}

/**
 * MiB that the heap of one worker may take: an equal part of what the main thread and bodies leave of `limit`. V8 would otherwise let
 * each heap grow to half of the limit before it collects all garbage. A worker that needs more is replaced, and the other
 * workers go on serving, where the kernel would kill the process with all of them. Undefined where there is no limit.
 *
 * @param limit as for `memoryPlan`.
 * @param bodyBytes that request bodies may take of all workers; they are outside of the heaps.
 */
export function workerHeapMib(workers: number, limit: number, bodyBytes: number): number | undefined {
  if (limit <= 0 || limit > maxLimit) return undefined;
  return Math.max(minWorkerHeapMib, Math.floor((limit - mainBytes - bodyBytes) / workers / mib));
}

/**
 * Workers and memory of a process that is told nothing of them. Together with the main thread they stay below `limit`, where
 * that is enough for one worker (352 MiB).
 *
 * @param limit bytes that the process may take; 0, or more than any machine has, where there is no limit.
 */
export function memoryPlan(cpus: number, limit: number): MemoryPlan {
  if (limit <= 0) {
    return { workers: cpus, bodyBytes: defaultBodyMemoryBytes, clientBytes: cpus * defaultClientBytes };
  }
  const share = Math.floor((limit * bodyPart) / mib) * mib;
  const bodyBytes = Math.min(defaultBodyMemoryBytes, Math.max(minBodyBytes, share));
  const left = limit - mainBytes;
  // Of a small limit one worker gets its part first.
  const fitting = Math.max(minBodyBytes, Math.min(bodyBytes, Math.floor((left - bytesPerWorker) / mib) * mib));
  const workers = Math.max(1, Math.min(cpus, Math.floor((left - fitting) / bytesPerWorker)));
  const spare = Math.floor((left - fitting) / workers - bytesPerWorker);
  const perWorker = Math.min(defaultClientBytes, minClientBytes + Math.max(0, spare));
  return { workers, bodyBytes: fitting, clientBytes: Math.floor((perWorker * workers) / mib) * mib };
}
