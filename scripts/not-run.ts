/**
 * Checks that a run leaves out, so that it can end with a list of them. The environment variable NOT_RUN names a file with
 * one line for each: what was left out, a colon, the reason. `.ci/run` writes into it, too.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** Says that a check is left out, and writes it down where NOT_RUN is set. */
export function leaveOut(check: string, reason: string): void {
  const line = `${check}: ${reason.replaceAll(/\s*\n\s*/g, "; ")}`;
  console.log(`-- not run: ${line}`);
  const file = process.env["NOT_RUN"];
  if (file !== undefined) appendFileSync(file, `${line}\n`);
}

/** What was written down so far. */
export function notRunChecks(): readonly string[] {
  const file = process.env["NOT_RUN"];
  if (file === undefined || !existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
}
