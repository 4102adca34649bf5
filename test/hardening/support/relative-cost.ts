/**
 * Time as a multiple of the time of a plain loop, measured in turns in the same process. The minimum of many short runs
 * counts, so neither a slow machine nor other load changes the value much, and a bound far above it is not reached by
 * accident.
 */

/** The number of turns after which the minimum of both is assumed to be known. */
const maxTurns = 300;
/** Bounds the number of turns of a slow run. */
const maxMs = 3_000;

const text = "a,bé".repeat(2_500);

/** Reads 10,000 characters as a script does: each is a value that is looked up and stored. */
function referenceLoop(): number {
  const counts = new Map<string, number>();
  for (const character of text.split("")) counts.set(character, (counts.get(character) ?? 0) + 1);
  return counts.size;
}

let isWarm = false;

function compileReference(): void {
  for (let times = 0; times < 200 && !isWarm; times++) referenceLoop();
  isWarm = true;
}

/** The time of `run` as a multiple of reading 10,000 characters. Ends early at a value below `enough`. */
export function relativeCost(run: () => unknown, enough: number): number {
  compileReference();
  let [bestRun, bestReference] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const startedMs = performance.now();
  for (let turn = 1; turn <= maxTurns; turn++) {
    bestReference = Math.min(bestReference, elapsedMs(referenceLoop));
    bestRun = Math.min(bestRun, elapsedMs(run));
    if (bestRun / bestReference < enough || performance.now() - startedMs > maxMs) break;
  }
  return bestRun / bestReference;
}

/** CPU time is exact to some milliseconds only. */
const shortMs = 20;

/**
 * The wall time of a short run, which is seldom interrupted; the CPU time of a long one, without the time of other
 * programs.
 */
function elapsedMs(run: () => unknown): number {
  const startedMs = performance.now();
  const before = process.threadCpuUsage();
  run();
  const wallMs = performance.now() - startedMs;
  if (wallMs <= shortMs) return wallMs;
  const { user, system } = process.threadCpuUsage(before);
  return Math.min(wallMs, Math.max(shortMs, (user + system) / 1_000));
}

/** The resolution of CPU time is some milliseconds. */
const speedCpuMs = 20;
/** CPU milliseconds of one pass on an idle core of 2026. */
const usualPassMs = 0.6;

const records = JSON.stringify(
  Array.from({ length: 1_000 }, (_, at) => ({
    name: `record-${at}-${"x".repeat(20)}`,
    value: { at, text: `text ${at}` },
  })),
);

/**
 * The factor by which this thread is slower at the moment than an idle core of 2026; 1 if it is faster. Takes 20 ms.
 * Other programs that use the same core, its sibling or the memory can triple the CPU time of the same work for
 * minutes, so a duration is divided by the value of just after it. A pass computes and allocates, as the measured work
 * does.
 */
export function slowness(): number {
  compileReference();
  const before = process.threadCpuUsage();
  for (let passes = 1; ; passes++) {
    referenceLoop();
    JSON.parse(records);
    const { user, system } = process.threadCpuUsage(before);
    const cpuMs = (user + system) / 1_000;
    if (cpuMs >= speedCpuMs) return Math.max(1, cpuMs / passes / usualPassMs);
  }
}
