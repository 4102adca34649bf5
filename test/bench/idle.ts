/** The memory of idle connections: what a peer uses with them above what it uses without them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { RunningProgram } from "./process.ts";
import { spread } from "./statistics.ts";

/** The connections of a measurement. */
export const idleConnections = 10_000;

/** One peer, once. */
export interface IdleSample {
  readonly name: string;
  /** Resident memory after one connection has been used. */
  readonly emptyBytes: number;
  /** Resident memory while all connections are idle. */
  readonly idleBytes: number;
  /** CPU time for a second of idleness, in microseconds. */
  readonly idleUsPerSecond: number;
}

/** Time in which a program releases what it needed only for the last requests. */
const settleMs = 5_000;

/** Measures a program that was just started. @param port of a listener. */
export async function measureIdle(name: string, program: RunningProgram, port: number): Promise<IdleSample> {
  await withConnections(port, 1, () => delay(settleMs));
  const emptyBytes = program.residentBytes();
  return withConnections(port, idleConnections, async () => {
    await delay(settleMs);
    const before = program.cpu();
    await delay(settleMs);
    const after = program.cpu();
    const idleUs = after.userUs + after.systemUs - before.userUs - before.systemUs;
    return { name, emptyBytes, idleBytes: program.residentBytes(), idleUsPerSecond: idleUs / (settleMs / 1_000) };
  });
}

async function withConnections<T>(port: number, count: number, measure: () => Promise<T>): Promise<T> {
  const load = spawn(process.execPath, [join(import.meta.dirname, "idle-load.ts"), String(port), String(count)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(load, "exit").then(([code]) => {
    throw new Error(`the load of idle connections ended with ${String(code)}`);
  });
  try {
    await Promise.race([once(load.stdout, "data"), ended]);
    return await Promise.race([measure(), ended]);
  } finally {
    ended.catch(() => undefined);
    load.stdin.end();
  }
}

/** A Markdown table, one row a peer; the figures are medians. */
export function renderIdle(samples: readonly IdleSample[]): string {
  const names = [...new Set(samples.map(({ name }) => name))];
  const rows = names.map((name) => {
    const own = samples.filter((sample) => sample.name === name);
    const median = (pick: (sample: IdleSample) => number): number => spread(own.map(pick)).median;
    const above = median(({ idleBytes, emptyBytes }) => idleBytes - emptyBytes);
    const mebibytes = [median(({ emptyBytes }) => emptyBytes), median(({ idleBytes }) => idleBytes), above];
    const cells = [
      ...[idleConnections.toLocaleString("en"), name, ...mebibytes.map((bytes) => (bytes / 1024 ** 2).toFixed(0))],
      ...[
        (above / idleConnections / 1024).toFixed(1),
        (median(({ idleUsPerSecond }) => idleUsPerSecond) / 1_000).toFixed(1),
      ],
    ];
    return `| ${cells.join(" | ")} |`;
  });
  return [
    "| idle connections | proxy | RSS MiB without | with | above | KiB per connection | CPU ms/s while idle |",
    "| ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ...rows,
  ].join("\n");
}
