/** Runs `proxyctl limits explain`. */
import { CommandError, exitCodes } from "../command-error.ts";
import type { PlainFormat } from "../options/output-option.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import type { Io } from "../io.ts";
import { renderData } from "../output/format.ts";
import { explainDecision } from "../views/explain.ts";
import { findAdmins } from "./find-admins.ts";

/** Options of `proxyctl limits explain`. */
export interface ExplainOptions extends ConnectOptions {
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
  let kept = 0;
  for (const admin of admins) {
    const found = await admin.decisions(id);
    kept += found.remembered;
    const [decision] = found.decisions;
    if (decision === undefined) continue;
    if (options.output === "table") io.stdout.write(explainDecision(decision, admin.connector.name));
    else io.stdout.write(renderData(options.output, decision));
    return;
  }
  throw new CommandError({
    message: `explain the request ${JSON.stringify(id)}: no denial with this id is kept (${kept} are, by ${admins.map(({ connector }) => connector.name).join(", ")})`,
    advice: [
      "take the x-request-id of a response with status 429; only the latest denials are kept",
      "see which limits are nearly used up: proxyctl limits top",
    ],
    exitCode: exitCodes.no,
  });
}
