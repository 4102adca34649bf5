/** What `proxyctl profile` does. */
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import type { ReachOptions } from "../commands/reach-options.ts";
import type { Io } from "../io.ts";
import { openOutputFile, type OutputFile } from "./output-file.ts";
import { findAdmins } from "./find-admins.ts";

export interface ProfileOptions extends ReachOptions {
  /** Of `cpu` alone. */
  readonly seconds?: number;
  readonly output?: string;
}

export async function takeProfile(
  kind: "cpu" | "heap",
  resource: string | undefined,
  { seconds = 0, ...options }: ProfileOptions,
  io: Io,
): Promise<void> {
  if (options.output === "-" && io.stdout.isTTY) {
    throw new CommandError({
      message: "write the profile to the terminal: it is not text",
      advice: ["name a file with -o FILE, or redirect the output"],
      exitCode: exitCodes.usage,
    });
  }
  const [admin] = await findAdmins(resource, options);
  const { output = `proxy-${kind}-${stampOf(io.clock.nowMs())}.pb.gz` } = options;
  // Before anything is recorded: nobody wants to hear after minutes that the folder is wrong.
  const file = output === "-" ? undefined : await openFile(output);
  try {
    if (kind === "cpu") io.stderr.write(`recording ${admin.reach.name} for ${seconds} s\n`);
    const bytes = await admin.profile(kind, seconds, io.signal);
    if (file === undefined) {
      io.stdout.writeFile(bytes);
      return;
    }
    await file.write(bytes).catch((error: unknown) => {
      throw cannotWrite(output, error);
    });
    io.stderr.write(`wrote ${output}; look at it with: go tool pprof -http=: ${output}\n`);
  } finally {
    await file?.close();
  }
}

async function openFile(path: string): Promise<OutputFile> {
  try {
    return await openOutputFile(path);
  } catch (error) {
    throw cannotWrite(path, error);
  }
}

function cannotWrite(path: string, error: unknown): CommandError {
  return new CommandError({
    message: `write the profile to ${path}: ${textOf(error)}`,
    advice: ["name another file with -o"],
    cause: error,
  });
}

/** `20261121-142006`, UTC. */
function stampOf(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, "").replace("T", "-");
}
