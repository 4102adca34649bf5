/** Waits for a promise, but not for longer than a time. */
import type { Clock, Timer } from "./clock.ts";

/** Resolves with whether the promise settles before `ms` milliseconds are over. Never rejects. */
export async function isSettledWithin(promise: Promise<unknown>, clock: Clock, ms: number): Promise<boolean> {
  let timer: Timer | undefined;
  const isOver = new Promise<false>((resolve) => {
    timer = clock.setTimer(ms, () => resolve(false));
  });
  const isSettled = promise.then(
    () => true,
    () => true,
  );
  return await Promise.race([isSettled, isOver]).finally(() => timer?.cancel());
}
