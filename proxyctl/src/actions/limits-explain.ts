/** Runs `proxyctl limits explain`. */
import { CommandError, exitCodes } from "../command-error.ts";
import type { PlainFormat } from "../options/output-option.ts";
import type { ReachOptions } from "../options/reach-options.ts";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { explainDecision } from "../views/explain.ts";
import { findAdmins } from "./find-admins.ts";

/** Options of `proxyctl limits explain`. */
export interface ExplainOptions extends ReachOptions {
  /** `-o`: the format of the decision. */
  readonly output: PlainFormat;
}

/** Explains the denial of the request with this `x-request-id`. */
export async function explain(
  id: string,
  resource: string | undefined,
  options: ExplainOptions,
  io: Io,
): Promise<void> {
  // Each replica keeps its own denials, and the client does not know which one responded.
  const admins = await findAdmins(resource, { ...options, ...(options.pod === undefined ? { allPods: true } : {}) });
  let remembered = 0;
  for (const admin of admins) {
    const found = await admin.decisions(id);
    remembered += found.remembered;
    const [decision] = found.decisions;
    if (decision === undefined) continue;
    if (options.output === "table") io.stdout.write(explainDecision(decision, admin.reach.name));
    else io.stdout.write(renderData(options.output, decision));
    return;
  }
  throw new CommandError({
    message: `explain the request ${JSON.stringify(id)}: no denial with this id is kept (${remembered} are, by ${admins.map(({ reach }) => reach.name).join(", ")})`,
    advice: [
      "take the x-request-id of a response with status 429; only the latest denials are kept",
      "see which limits are nearly used up: proxyctl limits top",
    ],
    exitCode: exitCodes.no,
  });
}
