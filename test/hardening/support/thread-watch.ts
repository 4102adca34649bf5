/**
 * Loaded into every thread of a process by `--import`: records how long its event loop is blocked, and the size of its
 * heap on request. The time is that of `StepTimes`.
 *
 * THREAD_WATCH names the file to append to, one JSON value a line. SIGUSR2 requests the heaps of all threads.
 */
import { appendFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread, threadId } from "node:worker_threads";
import { StepTimes } from "./longest-turn.ts";

/** A record of a thread. */
export type ThreadNote =
  | { readonly kind: "held"; readonly thread: number; readonly ms: number }
  | { readonly kind: "heap"; readonly thread: number; readonly bytes: number };

/** Two turns within an interval count as one, so it is short. */
const intervalMs = 1;
/** Shorter ones are not recorded. */
const minMs = 40;

const file = process.env["THREAD_WATCH"];
if (file !== undefined) watch(file);

function watch(path: string): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const note = (value: ThreadNote): void => appendFileSync(path, `${JSON.stringify(value)}\n`);

  const times = new StepTimes(minMs);
  let endStep = times.begin();
  // A timer runs at most once in each iteration of the loop: the time between two of its calls is the time that others
  // waited.
  setInterval(() => {
    endStep();
    endStep = times.begin();
    void times.takeLongestMs().then((ms) => {
      if (ms >= minMs) note({ kind: "held", thread: threadId, ms });
    });
  }, intervalMs).unref();

  const recordHeap = (): void => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    note({ kind: "heap", thread: threadId, bytes: heapUsed + external });
    endStep = times.begin();
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
