/** `proxyctl version`: of this program and of the proxy. */
import { readVersion } from "@gatewayproxy/runtime/version";
import { type Command, Option } from "commander";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { addReachOptions, findAdmins, type ReachOptions } from "./reach-options.ts";

interface VersionOptions extends ReachOptions {
  readonly client?: true;
  readonly output: "table" | "json" | "yaml";
}

/** Of this program, as its package has it. */
export function clientVersion(): string {
  return readVersion(new URL("../../package.json", import.meta.url));
}

/** Adds `version`. */
export function addVersionCommand(program: Command, io: Io): void {
  addReachOptions(program.command("version [resource]").description("Print the versions of proxyctl and of a proxy"), {
    allPods: true,
  })
    .option("--client", "print that of proxyctl only, and ask nobody")
    .addOption(
      new Option("-o, --output <format>", "how to print it").choices(["table", "json", "yaml"]).default("table"),
    )
    .action(async (resource: string | undefined, options: VersionOptions) => {
      const client = { version: clientVersion(), node: process.versions.node };
      const admins = options.client === true ? [] : await findAdmins(resource, options);
      const servers = await Promise.all(
        admins.map(async (admin) => ({ from: admin.reach.label, ...(await admin.configDump()).version })),
      );
      if (options.output !== "table") {
        io.stdout.write(renderData(options.output, { client, ...(servers.length === 0 ? {} : { servers }) }));
        return;
      }
      io.stdout.write(`client   ${client.version}   node ${client.node}\n`);
      for (const { from, version, node, platform } of servers) {
        io.stdout.write(`server   ${version}   node ${node}, ${platform}   ${from}\n`);
      }
    });
}
