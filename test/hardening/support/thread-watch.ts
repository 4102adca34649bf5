/**
 * Loaded into every thread of a process by `--import`: records how long its event loop is blocked, and the size of its heap
 * on request. The time is the thread's own CPU time, which other load on the machine does not change.
 *
 * THREAD_WATCH names the file to append to, one JSON value a line. SIGUSR2 requests the heaps of all threads.
 */
import { appendFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread, threadId } from "node:worker_threads";

/** A record of a thread. */
export type ThreadNote =
  | { readonly kind: "held"; readonly thread: number; readonly cpuMs: number }
  | { readonly kind: "heap"; readonly thread: number; readonly bytes: number };

const intervalMs = 10;
/** Shorter ones are not recorded. */
const minMs = 40;

const file = process.env["THREAD_WATCH"];
if (file !== undefined) watch(file);

function watch(path: string): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const note = (value: ThreadNote): void => appendFileSync(path, `${JSON.stringify(value)}\n`);

  let before = process.threadCpuUsage();
  // A timer runs at most once in each iteration of the loop: the time between two of its calls is the time that others
  // waited.
  setInterval(() => {
    const { user, system } = process.threadCpuUsage(before);
    before = process.threadCpuUsage();
    const cpuMs = (user + system) / 1_000;
    if (cpuMs >= minMs) note({ kind: "held", thread: threadId, cpuMs });
  }, intervalMs).unref();

  const recordHeap = (): void => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    note({ kind: "heap", thread: threadId, bytes: heapUsed + external });
    before = process.threadCpuUsage();
  };
  const channel = new BroadcastChannel("thread-watch");
  channel.unref();
  channel.onmessage = recordHeap;
  if (!isMainThread) return;
  process.on("SIGUSR2", () => {
    channel.postMessage("heap");
    recordHeap();
  });
}
