/**
 * Time as a multiple of the time of a plain loop, measured by turns in the same process. The best of many short runs
 * counts, so neither a slow machine nor a loaded one changes the figure much, and a bound far above it is not reached by
 * accident.
 */

/** Turns after which the best of both is taken to be known. */
const mostTurns = 300;
/** A run so slow that 300 turns would never end is measured a few times only. */
const mostMs = 3_000;

const text = "a,bé".repeat(2_500);

/** Reads 10,000 characters as a script does: each is a value that is looked up and stored. */
function referenceLoop(): number {
  const counts = new Map<string, number>();
  for (const character of text.split("")) counts.set(character, (counts.get(character) ?? 0) + 1);
  return counts.size;
}

/** Milliseconds of the reference loop on a core of 2026. */
const usualReferenceMs = 0.3;

let isWarm = false;
let knownReferenceMs = Number.POSITIVE_INFINITY;

/**
 * How many times as long as reading 10,000 characters `run` takes. Ends early at a figure below `enough`.
 */
export function relativeCost(run: () => unknown, enough: number): number {
  for (let times = 0; times < 200 && !isWarm; times++) referenceLoop();
  isWarm = true;
  let [bestRun, bestReference] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const startedMs = performance.now();
  for (let turn = 1; turn <= mostTurns; turn++) {
    bestReference = Math.min(bestReference, elapsedMs(referenceLoop));
    bestRun = Math.min(bestRun, elapsedMs(run));
    if (bestRun / bestReference < enough || performance.now() - startedMs > mostMs) break;
  }
  knownReferenceMs = Math.min(knownReferenceMs, bestReference);
  return bestRun / bestReference;
}

/** CPU time is exact to some milliseconds only. */
const shortMs = 20;

/** A short run is not interrupted each time; what other programs take of a long one is not counted. */
function elapsedMs(run: () => unknown): number {
  const startedMs = performance.now();
  const before = process.threadCpuUsage();
  run();
  const wallMs = performance.now() - startedMs;
  if (wallMs <= shortMs) return wallMs;
  const { user, system } = process.threadCpuUsage(before);
  return Math.min(wallMs, Math.max(shortMs, (user + system) / 1_000));
}

/** How much slower than the machine that bounds in milliseconds are meant for this one is; 1 for a faster one. */
export function slowness(): number {
  relativeCost(() => undefined, 0);
  return Math.max(1, knownReferenceMs / usualReferenceMs);
}
