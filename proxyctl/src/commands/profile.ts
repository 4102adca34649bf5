/** `proxyctl profile`: where a proxy spends its time or its memory, as a file for `go tool pprof`. */
import { writeFile } from "node:fs/promises";
import { type Command, InvalidArgumentError, Option } from "commander";
import { CommandError, textOf } from "../command-error.ts";
import type { Io } from "../io.ts";
import { addReachOptions, findAdmins, type ReachOptions } from "./reach-options.ts";

interface ProfileOptions extends ReachOptions {
  readonly seconds?: number;
  readonly output?: string;
}

/** As the admin server has them. */
const seconds = { min: 1, max: 300, default: 10 };

/** Adds `profile` and what is below it. */
export function addProfileCommand(program: Command, io: Io): void {
  const profile = program.command("profile").description("Take a profile of a running proxy, for go tool pprof");
  const add = (kind: "cpu" | "heap", summary: string): Command =>
    addReachOptions(profile.command(`${kind} [resource]`).description(summary), { allPods: false })
      .option("-o, --output <file>", "where to write it (default: a name made of kind and time), - for standard output")
      .action(async (resource: string | undefined, options: ProfileOptions) => take(kind, resource, options, io));
  add("cpu", "Record what all threads do for some seconds").addOption(
    new Option("-s, --seconds <n>", `how long, from ${seconds.min} to ${seconds.max}`)
      .argParser(parseSeconds)
      .default(seconds.default),
  );
  add("heap", "Record what the memory of all threads holds");
}

function parseSeconds(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= seconds.min && value <= seconds.max) return value;
  throw new InvalidArgumentError(`It must be a whole number from ${seconds.min} to ${seconds.max}.`);
}

async function take(
  kind: "cpu" | "heap",
  resource: string | undefined,
  options: ProfileOptions,
  io: Io,
): Promise<void> {
  const [admin] = await findAdmins(resource, options);
  const length = options.seconds ?? seconds.default;
  if (kind === "cpu") io.stderr.write(`recording ${admin.reach.name} for ${length} s\n`);
  const bytes = await admin.profile(kind, length, io.signal);
  if (options.output === "-") {
    io.stdout.write(bytes);
    return;
  }
  const file = options.output ?? `proxy-${kind}-${stampOf(io.clock.nowMs())}.pb.gz`;
  try {
    await writeFile(file, bytes);
  } catch (error) {
    throw new CommandError({
      message: `write the profile to ${file}: ${textOf(error)}`,
      advice: ["name another file with -o"],
      cause: error,
    });
  }
  io.stderr.write(`wrote ${file}; look at it with: go tool pprof -http=: ${file}\n`);
}

/** `20261121-142006`, UTC. */
function stampOf(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, "").replace("T", "-");
}
