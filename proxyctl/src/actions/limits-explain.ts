/** Runs `proxyctl limits explain`. */
import { isIP } from "node:net";
import type { Decision } from "@gatewayproxy/admin-api/decisions";
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

/** Explains the denial of the request with this `x-request-id`, or the latest one of the client with this address. */
export async function explain(
  id: string,
  resource: string | undefined,
  options: ExplainOptions,
  io: Io,
): Promise<void> {
  // Each replica keeps its own denials, and the client does not know which one responded.
  const admins = await findAdmins(resource, { ...options, ...(options.pod === undefined ? { allPods: true } : {}) });
  const isAddress = isIP(id) !== 0;
  let kept = 0;
  let latest: { readonly decision: Decision; readonly from: string } | undefined;
  for (const admin of admins) {
    const found = isAddress ? await admin.decisionsOfSource(id) : await admin.decisions(id);
    kept += found.remembered;
    const [decision] = found.decisions;
    if (decision === undefined || (latest !== undefined && latest.decision.at >= decision.at)) continue;
    latest = { decision, from: admin.connector.name };
    // Only one replica has responded with an id; a client may have called several.
    if (!isAddress) break;
  }
  if (latest !== undefined) {
    const { decision, from } = latest;
    io.stdout.write(
      options.output === "table" ? explainDecision(decision, from) : renderData(options.output, decision),
    );
    return;
  }
  const what = isAddress ? ["client", "of this address"] : ["request", "with this id"];
  throw new CommandError({
    message: `explain the ${what[0]} ${JSON.stringify(id)}: no denial ${what[1]} is kept (${kept} are, by ${admins.map(({ connector }) => connector.name).join(", ")})`,
    advice: [
      isAddress
        ? "take the source of a connection with the reason RateLimited from the access log; only the latest denials are kept"
        : "take the x-request-id of a response with status 429; only the latest denials are kept",
      "see which limits are nearly used up: proxyctl limits top",
    ],
    exitCode: exitCodes.no,
  });
}
