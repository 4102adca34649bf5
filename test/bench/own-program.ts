/** Starts the programs of this project as their images do. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type RunningProgram, startProgram } from "./process.ts";

/**
 * Starts a program of Node with the variables of the images.
 *
 * @param args Flags of Node, the file of the program, and its arguments.
 */
export function startOwnProgram(
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): RunningProgram {
  return startProgram(name, process.execPath, args, { ...imageEnvironment(), ...env });
}

/** The variables that the Dockerfile sets in all images, without the folders of programs. */
function imageEnvironment(): Readonly<Record<string, string>> {
  const dockerfile = readFileSync(join(import.meta.dirname, "../../Dockerfile"), "utf8");
  const [, variables] = /^FROM scratch AS base$.*?^ENV (.*?)$/ms.exec(dockerfile) ?? [];
  if (variables === undefined) throw new Error("the Dockerfile has no ENV in its stage base");
  const pairs = variables.split(" ").map((pair) => pair.split("=") as [string, string]);
  return Object.fromEntries(pairs.filter(([name]) => name !== "PATH"));
}
