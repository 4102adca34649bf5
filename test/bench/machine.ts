/** The machine of a benchmark, without which its results have no meaning. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";

/** Processor, memory and kernel in one line. */
export function describeMachine(): string {
  const processors = cpus();
  const gibibytes = Math.round(totalmem() / 1024 ** 3);
  const [, system] = /^PRETTY_NAME="(.*)"$/m.exec(readFileSync("/etc/os-release", "utf8")) ?? [];
  const model = processors[0]?.model ?? "processor";
  return `${processors.length} × ${model}, ${gibibytes} GiB, Linux ${release()}, ${system ?? "unknown system"}`;
}

/** The short hash of the current commit, with a mark if the tree differs from it. */
export function describeCommit(): string {
  const git = (...args: string[]): string => execFileSync("git", args, { encoding: "utf8" }).trim();
  const changed = git("status", "--porcelain", "--untracked-files=no") !== "";
  return git("rev-parse", "--short", "HEAD") + (changed ? " with local changes" : "");
}
