/** Measures how long work that is done in turns blocks the event loop. */

/**
 * A garbage collection or a compilation makes a turn of one run long; it does not occur at the same step every time.
 */
const maxRuns = 6;

/**
 * The longest turn of the event loop during `work`, in milliseconds of the processor: the minimum of several runs. Ends
 * early at a value below `enough`.
 */
export async function longestTurnMs(work: () => Promise<unknown>, enough: number): Promise<number> {
  let leastMs = Number.POSITIVE_INFINITY;
  for (let run = 0; run < maxRuns && leastMs >= enough; run++) leastMs = Math.min(leastMs, await longestTurnOf(work));
  return leastMs;
}

async function longestTurnOf(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0;
  let lastMs = cpuMs();
  let isDone = false;
  const turn = (): void => {
    const nowMs = cpuMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  await work();
  isDone = true;
  turn();
  return longestMs;
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
