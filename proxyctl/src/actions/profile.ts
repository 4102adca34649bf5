/** Runs `proxyctl profile`. */
import { CommandError, exitCodes, textOf } from "../command-error.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import type { Io } from "../io.ts";
import { openOutputFile, type OutputFile } from "./output-file.ts";
import { findAdmins } from "./find-admins.ts";

/** Options of `proxyctl profile`. */
export interface ProfileOptions extends ConnectOptions {
  /** For `cpu` only. */
  readonly seconds?: number;
  /** `-o`: the file to write, `-` for standard output; absent: a name made of kind and time. */
  readonly output?: string;
}

/** Takes a profile and writes it to a file. */
export async function takeProfile(
  kind: "cpu" | "heap",
  resource: string | undefined,
  { seconds = 0, ...options }: ProfileOptions,
  io: Io,
): Promise<void> {
  if (options.output === "-" && io.stdout.isTTY) {
    throw new CommandError({
      message: "cannot write the profile to a terminal: it is not text",
      advice: ["name a file with -o FILE, or redirect the output"],
      exitCode: exitCodes.usage,
    });
  }
  const [admin] = await findAdmins(resource, options);
  const { output = `proxy-${kind}-${stampOf(io.clock.nowMs())}.pb.gz` } = options;
  // The file is opened first, so that a wrong path is reported before minutes of recording.
  const file = output === "-" ? undefined : await openFile(output);
  try {
    if (kind === "cpu") io.stderr.write(`recording ${admin.connector.name} for ${seconds} s\n`);
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

/** Formats a time as `20261121-142006`, in UTC. */
function stampOf(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 19).replaceAll(/[-:]/g, "").replace("T", "-");
}
