/**
 * Global setup of a test run: bundles the programs as in the images, for `programFile`. A bundle starts with less than half
 * of the processor time that the sources take. Bundling takes 2 s, so it saves time under CI and in a run of all files. A
 * run of named files, or one that watches for changes, starts the sources.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { bundleAll } from "../../scripts/bundle.ts";
import { bundlesVariable } from "./program-file.ts";

/** Processes that run tests inherit the environment. */
export async function setup(project: TestProject): Promise<(() => void) | undefined> {
  // Each project of vitest.config.ts has this setup.
  if (process.env[bundlesVariable] !== undefined || !needsBundles(project)) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "gatewayproxy-bundles-"));
  execFileSync(process.execPath, ["scripts/build-page.ts"], { stdio: "pipe" });
  await bundleAll(folder);
  process.env[bundlesVariable] = folder;
  return () => rmSync(folder, { recursive: true });
}

/** Whether a run is under CI, or is one of all files: its command line names none. */
function needsBundles({ config }: TestProject): boolean {
  if (process.env["CI"] === "true") return true;
  const [, , ...args] = process.argv;
  return !config.watch && args.every((arg) => arg === "run" || arg.startsWith("-"));
}
