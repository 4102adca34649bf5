/**
 * The checks that a run skips, so that it can end with a list of them. The environment variable NOT_RUN names a file
 * with one line for each: the check, a colon, the reason. `.ci/run` also writes to it.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** Prints that a check is skipped, and adds it to the file of NOT_RUN. */
export function recordNotRun(check: string, reason: string): void {
  const line = `${check}: ${reason.replaceAll(/\s*\n\s*/g, "; ")}`;
  console.log(`-- not run: ${line}`);
  const file = process.env["NOT_RUN"];
  if (file !== undefined) appendFileSync(file, `${line}\n`);
}

/** Returns the lines of that file. */
export function notRunChecks(): readonly string[] {
  const file = process.env["NOT_RUN"];
  if (file === undefined || !existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
}
