/** Runs `proxyctl logging`. */
import type { AdminClient } from "../admin/admin-client.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import type { Io } from "../io.ts";
import { isTarget } from "../kube/target.ts";
import { findAdmins } from "./find-admins.ts";

/** Options of `proxyctl logging`. */
export interface LoggingOptions extends ConnectOptions {
  /** `--reset`: returns to the filter that the proxy was started with. */
  readonly reset?: true;
  /** `--list`: shows the modules with their levels. */
  readonly list?: true;
}

/** Runs `[resource] [level]`. The resource may be left out: an argument of another form is a level. */
export async function logging(
  first: string | undefined,
  second: string | undefined,
  options: LoggingOptions,
  io: Io,
): Promise<void> {
  const isResource = first !== undefined && (isTarget(first) || second !== undefined);
  const [resource, level] = isResource ? [first, second] : [undefined, first];
  const reset = options.reset === true;
  if ([level !== undefined, reset, options.list === true].filter(Boolean).length > 1) {
    throw usage("takes one of LEVEL, --reset and --list");
  }
  const admins = await findAdmins(resource, options);
  for (const admin of admins) {
    const lines = options.list === true ? await admin.logModules() : [await readOrSet(admin, level, reset)];
    for (const line of lines) io.stdout.write(admins.length > 1 ? `${admin.connector.label}   ${line}\n` : `${line}\n`);
  }
}

async function readOrSet(admin: AdminClient, level: string | undefined, reset: boolean): Promise<string> {
  if (level === undefined && !reset) return await admin.logLevel();
  return await admin.setLogLevel(level).catch(withoutHint);
}

function usage(message: string): CommandError {
  return new CommandError({ message: `logging ${message}`, advice: [example], exitCode: exitCodes.usage });
}

const example = "as in: proxyctl logging gateway/web info,proxy::config=debug";

/** Throws a usage error without the server's hint, which is about its HTTP parameters. */
function withoutHint(error: unknown): never {
  if (!(error instanceof CommandError) || error.exitCode !== exitCodes.usage) throw error;
  throw new CommandError({
    message: error.message,
    advice: [
      "a level is off, error, warn, info, debug or trace, for all modules or as MODULE=LEVEL, separated by commas",
      example,
    ],
    exitCode: exitCodes.usage,
    cause: error,
  });
}
