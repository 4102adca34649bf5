/** `proxyctl version`: the versions of proxyctl and of a proxy. */
import type { Command } from "commander";
import type { VersionOptions } from "../actions/version.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { plainOutput } from "../options/output-option.ts";
import { addConnectOptions } from "../options/connect-options.ts";

/** Adds `version`. */
export function addVersionCommand(program: Command, io: Io): void {
  const version = program.command("version [resource]").description("Print the versions of proxyctl and of a proxy");
  withExamples(
    addConnectOptions(version, { allPods: true }),
    "proxyctl version gateway/web --all-pods",
    "proxyctl version --client",
  )
    .option("--client", "print the version of proxyctl only")
    .addOption(plainOutput())
    .action(async (resource: string | undefined, options: VersionOptions) => {
      await (await actions.version()).printVersions(resource, options, io);
    });
}
