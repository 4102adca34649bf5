/** Control groups with a memory limit, as containers have them, on machines that permit them. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { onTestFinished } from "vitest";

const versions = [
  { root: "/sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", peak: "memory.max_usage_in_bytes" },
  { root: "/sys/fs/cgroup", limit: "memory.max", peak: "memory.peak" },
];

export interface MemoryCgroup {
  readonly path: string;
  /** The maximum of the memory of its processes, in bytes, with the page cache of files that they read. */
  peakBytes(): number;
}

/**
 * A control group that the kernel gives `limitBytes` of memory and no swap, for processes that end with the test.
 *
 * @returns undefined where none can be made: without root, or in most containers.
 */
export function memoryCgroup(limitBytes: number): MemoryCgroup | undefined {
  for (const { root, limit, peak } of versions) {
    const path = `${root}/gatewayproxy-test-${process.pid}-${Date.now()}`;
    try {
      mkdirSync(path);
    } catch {
      continue;
    }
    // A killed process leaves the group a moment later.
    onTestFinished(() => removeSoon(path));
    // The file is missing if the parent does not pass the memory controller to its children.
    if (!existsSync(`${path}/${limit}`)) continue;
    writeFileSync(`${path}/${limit}`, String(limitBytes));
    return { path, peakBytes: () => Number(readFileSync(`${path}/${peak}`, "utf8")) };
  }
  return undefined;
}

async function removeSoon(path: string): Promise<void> {
  for (let attempts = 0; attempts < 50; attempts++) {
    try {
      rmdirSync(path);
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
