/** `proxyctl limits …`: live counters, their reset, the cause of a denial, and a dry run of limits. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { ExplainOptions } from "../actions/limits-explain.ts";
import type { ResetOptions } from "../actions/limits-reset.ts";
import type { TopOptions } from "../actions/limits-top.ts";
import type { Io } from "../io.ts";
import { actions } from "./actions.ts";
import { withExamples } from "./examples.ts";
import { addLimitsTestCommand } from "./limits-test.ts";
import { plainOutput } from "../options/output-option.ts";
import { addConnectOptions } from "../options/connect-options.ts";

/** Adds `limits` and its subcommands. */
export function addLimitsCommand(program: Command, io: Io): void {
  const limits = withExamples(
    program
      .command("limits")
      .description("Watch limits, reset counters, explain a denial, try limits before you apply them"),
    "proxyctl limits top gateway/web",
    "proxyctl limits test -f limits.yaml --log access.jsonl",
  );
  addTopCommand(limits, io);
  addExplainCommand(limits, io);
  addResetCommand(limits, io);
  addLimitsTestCommand(limits, io);
}

function addTopCommand(limits: Command, io: Io): void {
  const top = limits.command("top [resource]").description("Show the most used counters, live on a terminal");
  withExamples(
    addConnectOptions(top, { allPods: true }),
    "proxyctl limits top gateway/web --all-pods",
    "proxyctl limits top gateway/web --once -o json",
  )
    .addOption(
      new Option("--interval <seconds>", "seconds between updates, from 1 to 60").argParser(parseInterval).default(1),
    )
    .option("--once", "print one table, on a terminal too")
    .addOption(plainOutput())
    .action(async (resource: string | undefined, options: TopOptions) => {
      await (await actions.top()).showTop(resource, options, io);
    });
}

function addExplainCommand(limits: Command, io: Io): void {
  const explain = limits
    .command("explain <request-id|address> [resource]")
    .description(
      "Show which policy, entry and key denied a request, by the x-request-id of its 429 response, or what was denied last to a client, by its address",
    );
  withExamples(
    addConnectOptions(explain, { allPods: false }),
    "proxyctl limits explain 4fd75733-ad3b-4c1e-8a3c-fc4a78a16b32 gateway/web",
    "proxyctl limits explain 192.0.2.7 gateway/web",
  )
    .addOption(plainOutput())
    .action(async (id: string, resource: string | undefined, options: ExplainOptions) => {
      await (await actions.explain()).explain(id, resource, options, io);
    });
}

function addResetCommand(limits: Command, io: Io): void {
  const reset = limits
    .command("reset <policy> [resource]")
    .description("Restore the full budget of the counters of a ProxyPolicy, NAMESPACE/NAME or NAME");
  withExamples(
    addConnectOptions(reset, { allPods: true }),
    "proxyctl limits reset default/chat-limits gateway/web --all-pods",
    "proxyctl limits reset default/chat-limits gateway/web --entry per-user --key ada",
  )
    .option("--entry <name>", "reset only this entry, by its name or its index")
    .option("--key <value>", "reset only the counters of this value of the key, or of a fingerprint of limits top")
    .addOption(plainOutput())
    .action(async (policy: string, resource: string | undefined, options: ResetOptions) => {
      await (await actions.reset()).reset(policy, resource, options, io);
    });
}

function parseInterval(text: string): number {
  const seconds = Number(text);
  if (seconds >= 1 && seconds <= 60) return seconds;
  throw new InvalidArgumentError("It must be a number from 1 to 60.");
}
