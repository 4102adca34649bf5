/** What `proxyctl limits explain` does. */
import { CommandError, exitCodes } from "../command-error.ts";
import type { PlainFormat } from "../commands/output-option.ts";
import type { ReachOptions } from "../commands/reach-options.ts";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { explainDecision } from "../views/explain.ts";
import { findAdmins } from "./find-admins.ts";

export interface ExplainOptions extends ReachOptions {
  readonly output: PlainFormat;
}

export async function explain(
  id: string,
  resource: string | undefined,
  options: ExplainOptions,
  io: Io,
): Promise<void> {
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
