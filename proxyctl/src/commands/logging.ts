/** `proxyctl logging`: shows and changes the log filter of a running proxy. */
import type { Command } from "commander";
import type { LoggingOptions } from "../actions/logging.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { addConnectOptions } from "../options/connect-options.ts";

/** Adds `logging`. */
export function addLoggingCommand(program: Command, io: Io): void {
  const logging = program
    .command("logging [resource] [level]")
    .description("Show the log level of a proxy, or set it: info, off, info,proxy::config=debug");
  withExamples(
    addConnectOptions(logging, { allPods: true }),
    "proxyctl logging gateway/web",
    "proxyctl logging gateway/web info,proxy::config=debug --all-pods",
    "proxyctl logging gateway/web --reset",
    "proxyctl logging gateway/web --list",
  )
    .option("--reset", "reset to the level that the proxy was started with")
    .option("--list", "show the modules that log, with the level of each")
    .action(async (first: string | undefined, second: string | undefined, options: LoggingOptions) => {
      await (await actions.logging()).logging(first, second, options, io);
    });
}
