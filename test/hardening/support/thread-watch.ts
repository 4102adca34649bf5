/**
 * Loaded into every thread of a process by `--import`: writes down how long its event loop is held, and how large its heap
 * is when it is asked. Time is the thread's own CPU time, to which a busy machine adds nothing.
 *
 * THREAD_WATCH names the file to append to, one JSON value a line. SIGUSR2 asks all threads for their heaps.
 */
import { appendFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread, threadId } from "node:worker_threads";

/** What a thread writes down. */
export type ThreadNote =
  | { readonly kind: "held"; readonly thread: number; readonly cpuMs: number }
  | { readonly kind: "heap"; readonly thread: number; readonly bytes: number };

const intervalMs = 10;
/** Shorter ones are not written down. */
const leastMs = 40;

const file = process.env["THREAD_WATCH"];
if (file !== undefined) watch(file);

function watch(path: string): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const note = (value: ThreadNote): void => appendFileSync(path, `${JSON.stringify(value)}\n`);

  let before = process.threadCpuUsage();
  // A timer is looked at once in each round of the loop: between two of its calls is what kept others from their turn.
  setInterval(() => {
    const { user, system } = process.threadCpuUsage(before);
    before = process.threadCpuUsage();
    const cpuMs = (user + system) / 1_000;
    if (cpuMs >= leastMs) note({ kind: "held", thread: threadId, cpuMs });
  }, intervalMs).unref();

  const tellHeap = (): void => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    note({ kind: "heap", thread: threadId, bytes: heapUsed + external });
    before = process.threadCpuUsage();
  };
  const channel = new BroadcastChannel("thread-watch");
  channel.unref();
  channel.onmessage = tellHeap;
  if (!isMainThread) return;
  process.on("SIGUSR2", () => {
    channel.postMessage("heap");
    tellHeap();
  });
}
