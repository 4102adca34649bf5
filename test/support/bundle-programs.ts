/**
 * Global setup of a test run: under CI, bundles the programs as in the images, for `programFile`. A bundle starts with
 * less than half of the processor time that the sources take.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "../../scripts/bundle.ts";
import { type BundledImage, bundledPrograms } from "../../scripts/bundled-programs.ts";
import { bundlesVariable } from "./program-file.ts";

/** Processes that run tests inherit the environment. */
export async function setup(): Promise<(() => void) | undefined> {
  // Each project of vitest.config.ts has this setup.
  if (process.env["CI"] !== "true" || process.env[bundlesVariable] !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "gatewayproxy-bundles-"));
  execFileSync("npm", ["run", "--silent", "build:ui"], { stdio: "pipe" });
  // The keys of the table.
  const images = Object.keys(bundledPrograms) as BundledImage[];
  await Promise.all(images.map((image) => bundle(image, join(folder, image))));
  process.env[bundlesVariable] = folder;
  return () => rmSync(folder, { recursive: true });
}
