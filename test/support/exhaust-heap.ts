/**
 * Loaded into every thread of a proxy by `--import`: makes a machine of the memory EXHAUST_HEAP_LIMIT bytes, and on
 * SIGUSR2 fills the heap of the first worker until V8 ends that thread, right after it has taken its next lock in
 * shared memory.
 */
import { isMainThread, workerData } from "node:worker_threads";

const limit = Number(process.env["EXHAUST_HEAP_LIMIT"]);
const channel = new BroadcastChannel("exhaust-heap");
channel.unref();

if (isMainThread) {
  process.constrainedMemory = () => limit;
  process.on("SIGUSR2", () => channel.postMessage("now"));
} else if ((workerData as { readonly worker?: unknown }).worker === 1) {
  channel.onmessage = exhaustWithLock;
}

function exhaustWithLock(): void {
  const { compareExchange } = Atomics;
  Atomics.compareExchange = ((array: Int32Array, index: number, expected: number, replacement: number): number => {
    const found = compareExchange(array, index, expected, replacement);
    // As `BucketLocks.lock`, of the owner 1.
    if (expected === 0 && found === 0 && replacement === 1) exhaust();
    return found;
  }) as typeof Atomics.compareExchange;
}

function exhaust(): void {
  const kept: (readonly number[])[] = [];
  // Quickly: the other workers wait for the lock meanwhile.
  for (;;) kept.push(new Array<number>(100_000).fill(kept.length));
}
