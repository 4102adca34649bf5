/** `proxyctl profile`: CPU and heap profiles of a proxy for `go tool pprof`. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { ProfileOptions } from "../actions/profile.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { addConnectOptions } from "../options/connect-options.ts";

/** The bounds of the admin server. */
const seconds = { min: 1, max: 300, default: 10 };

/** Adds `profile` and its subcommands. */
export function addProfileCommand(program: Command, io: Io): void {
  const profile = withExamples(
    program.command("profile").description("Take a profile of a running proxy, for go tool pprof"),
    "proxyctl profile cpu gateway/web -o cpu.pb.gz",
  );
  const add = (kind: "cpu" | "heap", summary: string, ...examples: readonly string[]): Command => {
    const command = profile.command(`${kind} [resource]`).description(summary);
    return withExamples(addConnectOptions(command, { allPods: false }), ...examples)
      .option("-o, --output <file>", "where to write it (default: a name made of kind and time), - for standard output")
      .action(async (resource: string | undefined, options: ProfileOptions) => {
        await (await actions.profile()).takeProfile(kind, resource, options, io);
      });
  };
  add(
    "cpu",
    "Record the CPU time of all threads for some seconds",
    "proxyctl profile cpu gateway/web --seconds 30 -o cpu.pb.gz",
  ).addOption(
    new Option("-s, --seconds <n>", `duration, from ${seconds.min} to ${seconds.max}`)
      .argParser(parseSeconds)
      .default(seconds.default),
  );
  add("heap", "Record the heaps of all threads", "proxyctl profile heap gateway/web --pod web-7d9f");
}

function parseSeconds(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= seconds.min && value <= seconds.max) return value;
  throw new InvalidArgumentError(`It must be a whole number from ${seconds.min} to ${seconds.max}.`);
}
