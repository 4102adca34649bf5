/** Formats figures for people. */

/** Formats milliseconds: `0.4 ms`, `12 ms`, `3.1 s`, `2m 5s`. */
export function formatMs(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${ms.toFixed(0)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return formatSeconds(ms / 1000);
}

/** Formats whole seconds: `45s`, `2m 5s`, `1h 3m`, `1h`, `3d 4h`. */
export function formatSeconds(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  if (whole < 3_600) return joined(Math.floor(whole / 60), "m", whole % 60, "s");
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) return joined(Math.floor(minutes / 60), "h", minutes % 60, "m");
  const hours = Math.floor(minutes / 60);
  return joined(Math.floor(hours / 24), "d", hours % 24, "h");
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit} ${small}${smallUnit}`;
}

const byteUnits = ["bytes", "kB", "MB", "GB"] as const;

/** Formats a size: `812 bytes`, `70.4 MB`. */
export function formatBytes(bytes: number): string {
  const power = Math.min(byteUnits.length - 1, bytes < 1_000 ? 0 : Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1_000 ** power).toFixed(power === 0 ? 0 : 1)} ${byteUnits[power] ?? "bytes"}`;
}

/** Formats a rate: `0`, `0.2`, `3.5`, `12`, `1,234`. */
export function formatRate(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
}

/** Formats `1 request`, `0 requests`, `1,234 requests`. @param plural if it is not the noun with an s. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}

/** Formats a whole number: `1,234`. */
export function formatCount(count: number): string {
  return count.toLocaleString("en");
}
