/** What `proxyctl logging` does. */
import { CommandError, exitCodes } from "../command-error.ts";
import type { ReachOptions } from "../commands/reach-options.ts";
import type { Io } from "../io.ts";
import { isTarget } from "../kube/target.ts";
import { findAdmins } from "./find-admins.ts";

export interface LoggingOptions extends ReachOptions {
  readonly reset?: true;
}

/** `[resource] [level]`, of which the resource may be left out: what is not of its form is a level. */
export async function logging(
  first: string | undefined,
  second: string | undefined,
  options: LoggingOptions,
  io: Io,
): Promise<void> {
  const isResource = first !== undefined && (isTarget(first) || second !== undefined);
  const [resource, level] = isResource ? [first, second] : [undefined, first];
  const reset = options.reset === true;
  const admins = await findAdmins(resource, options);
  for (const admin of admins) {
    const isRead = level === undefined && !reset;
    const directives = isRead ? await admin.logLevel() : await admin.setLogLevel({ level, reset }).catch(refused);
    io.stdout.write(admins.length > 1 ? `${admin.reach.label}   ${directives}\n` : `${directives}\n`);
  }
}

/** The server's hint is for whoever speaks HTTP to it. */
function refused(error: unknown): never {
  if (!(error instanceof CommandError) || error.exitCode !== exitCodes.usage) throw error;
  throw new CommandError({
    message: error.message,
    advice: [
      "a level is off, error, warn, info, debug or trace, for all modules or as MODULE=LEVEL, separated by commas",
      "as in: proxyctl logging gateway/web info,proxy::config=debug",
    ],
    exitCode: exitCodes.usage,
    cause: error,
  });
}
