/** Runs `proxyctl version`. */
import { CommandError, exitCodes } from "../command-error.ts";
import type { PlainFormat } from "../options/output-option.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import type { Io } from "../io.ts";
import { withoutControls } from "../output/controls.ts";
import { renderData } from "../output/format.ts";
import { clientVersion } from "../version.ts";
import { findAdmins } from "./find-admins.ts";

/** Options of `proxyctl version`. */
export interface VersionOptions extends ConnectOptions {
  /** `--client`: prints the version of proxyctl only. */
  readonly client?: true;
  /** `-o`: the format of the versions. */
  readonly output: PlainFormat;
}

/** Prints the version of proxyctl first, so that it appears even if no proxy can be reached. */
export async function printVersions(resource: string | undefined, options: VersionOptions, io: Io): Promise<void> {
  if (options.client === true && resource !== undefined) {
    throw new CommandError({
      message: `--client connects to no proxy, but ${resource} is named`,
      advice: ["leave out one of them"],
      exitCode: exitCodes.usage,
    });
  }
  const client = { version: clientVersion, node: process.versions.node };
  const result = options.client === true ? [] : await readServers(resource, options).catch(asConnectError);
  const servers = result instanceof CommandError ? [] : result;
  if (options.output === "table") {
    io.stdout.write(`client   ${client.version}   node ${client.node}\n`);
    for (const { from, version, node, platform } of servers) {
      io.stdout.write(`${withoutControls(`server   ${version}   node ${node}, ${platform}   ${from}`)}\n`);
    }
  } else {
    io.stdout.write(renderData(options.output, { client, ...(servers.length === 0 ? {} : { servers }) }));
  }
  if (result instanceof CommandError) throw result;
}

/** Returns the failure to reach a proxy; a usage error ends the command at once. */
function asConnectError(error: unknown): CommandError {
  if (error instanceof CommandError && error.exitCode !== exitCodes.usage) return error;
  throw error;
}

async function readServers(resource: string | undefined, options: VersionOptions) {
  const admins = await findAdmins(resource, options);
  return await Promise.all(
    admins.map(async (admin) => ({ from: admin.connector.label, ...(await admin.configDump()).version })),
  );
}
