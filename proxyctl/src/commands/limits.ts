/** `proxyctl limits …`: what limits count now, why one refused, and what one would have done. */
import { type Command, Option } from "commander";
import { CommandError, exitCodes } from "../command-error.ts";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { explainDecision } from "../views/explain.ts";
import { addLimitsTestCommand } from "./limits-test.ts";
import { addLimitsTopCommand } from "./limits-top.ts";
import { addReachOptions, findAdmins, type ReachOptions } from "./reach-options.ts";

interface ExplainOptions extends ReachOptions {
  readonly output: "table" | "json" | "yaml";
}

/** Adds `limits` and what is below it. */
export function addLimitsCommand(program: Command, io: Io): void {
  const limits = program.command("limits").description("Watch limits, explain a refusal, try limits before they count");
  addLimitsTopCommand(limits, io);
  addReachOptions(
    limits
      .command("explain <request-id> [resource]")
      .description("Say which policy, entry and key refused a request, by the x-request-id of its 429"),
    { allPods: false },
  )
    .addOption(
      new Option("-o, --output <format>", "how to print it").choices(["table", "json", "yaml"]).default("table"),
    )
    .action(async (id: string, resource: string | undefined, options: ExplainOptions) => {
      await explain(id, resource, options, io);
    });
  addLimitsTestCommand(limits, io);
}

async function explain(id: string, resource: string | undefined, options: ExplainOptions, io: Io): Promise<void> {
  // Each replica remembers its own refusals, and nobody knows which one it was.
  const admins = await findAdmins(resource, { ...options, ...(options.pod === undefined ? { allPods: true } : {}) });
  let remembered = 0;
  for (const admin of admins) {
    const answer = await admin.decisions(id);
    remembered += answer.remembered;
    const [decision] = answer.decisions;
    if (decision === undefined) continue;
    if (options.output === "table") io.stdout.write(explainDecision(decision, admin.reach.name));
    else io.stdout.write(renderData(options.output, decision));
    return;
  }
  throw new CommandError({
    message: `explain the request ${JSON.stringify(id)}: no refusal with this id is remembered (${remembered} are, by ${admins.map(({ reach }) => reach.name).join(", ")})`,
    advice: [
      "take the x-request-id of an answer with status 429; older refusals make room for new ones",
      "see what is nearly exhausted: proxyctl limits top",
    ],
    exitCode: exitCodes.no,
  });
}
