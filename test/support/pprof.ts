/** Reads a profile with `go tool pprof`. */
import { execFileSync } from "node:child_process";
import { requireProgram } from "./programs.ts";

/** The report of `go tool pprof -top` on a file, with the source lines of the functions. */
export function pprofTop(file: string): string {
  return execFileSync(requireProgram("go"), ["tool", "pprof", "-top", "-lines", file], {
    encoding: "utf8",
    stdio: "pipe",
  });
}
