/** `proxyctl logging`: what a proxy logs, read and changed while it runs. */
import type { Command } from "commander";
import type { Io } from "../io.ts";
import { isTarget } from "../kube/target.ts";
import { addReachOptions, findAdmins, type ReachOptions } from "./reach-options.ts";

interface LoggingOptions extends ReachOptions {
  readonly reset?: true;
}

/** Adds `logging`. */
export function addLoggingCommand(program: Command, io: Io): void {
  addReachOptions(
    program
      .command("logging [resource] [level]")
      .description("Show the log level of a proxy, or set it: info, off, info,proxy::config=debug"),
    { allPods: true },
  )
    .option("--reset", "go back to the level that the proxy was started with, before any that is given")
    .action(async (first: string | undefined, second: string | undefined, options: LoggingOptions) => {
      // The resource may be left out: what is not of its form is a level.
      const isResource = first !== undefined && (isTarget(first) || second !== undefined);
      const [resource, level] = isResource ? [first, second] : [undefined, first];
      const reset = options.reset === true;
      const admins = await findAdmins(resource, options);
      for (const admin of admins) {
        const isRead = level === undefined && !reset;
        const directives = isRead ? await admin.logLevel() : await admin.setLogLevel({ level, reset });
        io.stdout.write(admins.length > 1 ? `${admin.reach.label}   ${directives}\n` : `${directives}\n`);
      }
    });
}
