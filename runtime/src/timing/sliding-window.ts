/**
 * Sliding windows that count by sub-windows of a 60th of their length. A sub-window is counted for one more than 60 of
 * them, so that no span of one window has more than is counted.
 */

/** Sub-windows of a window. */
export const subWindows = 60;

/** Sub-windows that are counted: those within the window, and the one in which it begins. */
export const countedSubWindows = subWindows + 1;

/** Returns the number of the sub-window that contains `nowMs`, counted from time 0. */
export function subWindowAt(nowMs: number, windowMs: number): number {
  return Math.floor((nowMs * subWindows) / windowMs);
}

/**
 * Returns the place of a sub-window in a ring of `countedSubWindows`. Sub-windows before time 0 have negative numbers:
 * a window may have begun before the machine, whose start is time 0.
 */
export function placeOf(subWindow: number): number {
  const place = subWindow % countedSubWindows;
  return place < 0 ? place + countedSubWindows : place;
}

/** Returns the time in milliseconds at which a sub-window begins; may be a fraction. */
export function subWindowStartMs(subWindow: number, windowMs: number): number {
  return (subWindow * windowMs) / subWindows;
}
