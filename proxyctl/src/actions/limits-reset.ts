/** Runs `proxyctl limits reset`. */
import type { LimitsReset } from "@gatewayproxy/admin-api/limits";
import type { AdminClient } from "../admin/admin-client.ts";
import { CommandError, exitCodes } from "../command-error.ts";
import type { Io } from "../io.ts";
import type { ConnectOptions } from "../options/connect-options.ts";
import type { PlainFormat } from "../options/output-option.ts";
import { renderData } from "../output/format.ts";
import { type PodReset, renderResets } from "../views/limits-reset.ts";
import { findAdmins } from "./find-admins.ts";

/** Options of `proxyctl limits reset`. */
export interface ResetOptions extends ConnectOptions {
  /** `-o`: the format of the result. */
  readonly output: PlainFormat;
  /** `--entry`: name or index; absent: all entries. */
  readonly entry?: string;
  /** `--key`: a value or a fingerprint; absent: all counters. */
  readonly key?: string;
}

/**
 * Resets counters in each selected proxy, one after the other. If one fails, the output has those before it, since
 * their counters are reset.
 */
export async function reset(
  policy: string,
  resource: string | undefined,
  options: ResetOptions,
  io: Io,
): Promise<void> {
  const { entry, key } = options;
  const admins = await findAdmins(resource, options);
  const results: PodReset[] = [];
  try {
    for (const admin of admins) {
      const result = await admin.resetLimits({ policy, entry, key }).catch(withoutHttp);
      results.push({ from: labelOf(admin), result });
    }
  } finally {
    if (results.length > 0) io.stdout.write(render(results, options.output, admins.length > 1));
  }
}

function labelOf({ connector }: AdminClient): string {
  return connector.label;
}

function render(results: readonly PodReset[], format: PlainFormat, isByPod: boolean): string {
  if (format === "table") return renderResets(results);
  const value: LimitsReset | Readonly<Record<string, LimitsReset>> | undefined = isByPod
    ? Object.fromEntries(results.map(({ from, result }) => [from, result]))
    : results[0]?.result;
  return renderData(format, value);
}

/** Adds where to find the names that the server does not know. */
function withoutHttp(error: unknown): never {
  if (!(error instanceof CommandError) || error.exitCode !== exitCodes.usage) throw error;
  throw new CommandError({
    message: error.message,
    advice: [...error.advice, "see the policies and their entries: proxyctl config policies"],
    exitCode: exitCodes.usage,
    cause: error,
  });
}
