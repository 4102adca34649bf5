/** Figures as people read them. */

/** `0.4ms`, `12ms`, `3.1s`, `2m 5s`. */
export function formatMs(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)}ms`;
  if (ms < 1000) return `${ms.toFixed(0)}ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)}s`;
  return formatSeconds(Math.round(ms / 1000));
}

/** `45s`, `2m 5s`, `1h 3m`, `1h`. */
export function formatSeconds(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  if (minutes === 0) return `${seconds}s`;
  return minutes < 60
    ? joined(minutes, "m", seconds % 60, "s")
    : joined(Math.floor(minutes / 60), "h", minutes % 60, "m");
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit} ${small}${smallUnit}`;
}
