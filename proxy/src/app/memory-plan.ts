/** How the memory that a process may take is shared out, where no setting says otherwise. */
import { defaultBodyMemoryBytes } from "../server/body-budget.ts";

const mib = 1024 * 1024;

/** What a worker takes under load besides request bodies: heap, code, buffers of connections. */
export const bytesPerWorker = 192 * mib;
/** Of the main thread, with configuration and counters. */
export const mainBytes = 128 * mib;
/** Bodies have at most this part of a limit, and not less than one LLM request may take. */
const bodyPart = 1 / 4;
const minBodyBytes = 32 * mib;

export interface MemoryPlan {
  readonly workers: number;
  readonly bodyBytes: number;
}

/**
 * Workers and body memory of a process that is told neither. Together with the main thread they stay below `limit`, where
 * that is enough for one worker (352 MiB).
 *
 * @param limit bytes that the process may take; 0, or more than any machine has, where there is no limit.
 */
export function memoryPlan(cpus: number, limit: number): MemoryPlan {
  if (limit <= 0) return { workers: cpus, bodyBytes: defaultBodyMemoryBytes };
  const share = Math.floor((limit * bodyPart) / mib) * mib;
  const bodyBytes = Math.min(defaultBodyMemoryBytes, Math.max(minBodyBytes, share));
  const left = limit - mainBytes;
  // Of a small limit one worker gets its part first.
  const fitting = Math.max(minBodyBytes, Math.min(bodyBytes, Math.floor((left - bytesPerWorker) / mib) * mib));
  const workers = Math.max(1, Math.min(cpus, Math.floor((left - fitting) / bytesPerWorker)));
  return { workers, bodyBytes: fitting };
}
