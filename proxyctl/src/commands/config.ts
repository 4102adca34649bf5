/** `proxyctl config …`: the configuration of a proxy. */
import { type Command, Option } from "commander";
import type { ConfigOptions, ViewName } from "../actions/config.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { addConnectOptions, clusterFlags, type ConnectOptions } from "../options/connect-options.ts";

interface ViewCommand {
  readonly name: ViewName;
  readonly summary: string;
  readonly examples: readonly string[];
}

const views: readonly ViewCommand[] = [
  {
    name: "all",
    summary: "Show listeners, routes, backends and policies; with -o yaml as one summary",
    examples: ["proxyctl config all gateway/web", "proxyctl config all --address :15000 -o yaml"],
  },
  {
    name: "backends",
    summary: "Show each endpoint of the backends with its health, requests and latency",
    examples: ["proxyctl config backends gateway/web --all-pods"],
  },
  {
    name: "routes",
    summary: "Show each rule of the routes with its matches, backends and limits",
    examples: ["proxyctl config routes gateway/web -o wide", "proxyctl config routes --file dump.json"],
  },
  {
    name: "policies",
    summary: "Show the policies, their limits and their targets",
    examples: ["proxyctl config policies gateway/web -n team"],
  },
];

/** Adds `config` and its subcommands. */
export function addConfigCommand(program: Command, io: Io): void {
  const config = withExamples(
    program.command("config").description("Show the configuration of a proxy"),
    "proxyctl config all gateway/web",
    "proxyctl config backends gateway/web -o wide",
  );
  for (const { name, summary, examples } of views) {
    withExamples(addSourceOptions(config.command(`${name} [resource]`).description(summary)), ...examples)
      .addOption(
        new Option("-o, --output <format>", "how to print it")
          .choices(["table", "wide", "json", "yaml"])
          .default("table"),
      )
      .action(async (resource: string | undefined, options: ConfigOptions) => {
        await (await actions.config()).showConfig(name, resource, options, io);
      });
  }
  const dump = config.command("dump [resource]").description("Print the whole dump of the admin server");
  withExamples(addConnectOptions(dump, { allPods: false }), "proxyctl config dump gateway/web > dump.json").action(
    async (resource: string | undefined, options: ConnectOptions) => {
      await (await actions.config()).printDump(resource, options, io);
    },
  );
}

function addSourceOptions(command: Command): Command {
  return addConnectOptions(command, { allPods: true }).addOption(
    new Option("-f, --file <file>", "read a saved dump instead, - for standard input").conflicts([
      "address",
      ...clusterFlags,
    ]),
  );
}
