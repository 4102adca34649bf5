/** Resets counters for an operator, and records it. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { LimitsReset } from "@gatewayproxy/admin-api/limits";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logs } from "@gatewayproxy/runtime/log";
import { isSecretExpression, redactText, redactValue } from "@gatewayproxy/runtime/redaction";
import type { AdminError } from "../admin/endpoint.ts";
import { type ResetRequest, type ResetSelection, type SelectedLimit, selectLimits } from "../admin/reset-selection.ts";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { Configuration } from "./configuration.ts";

/** The parts of the process that a reset uses. */
export interface ResetParts {
  readonly logs: Logs;
  readonly clock: Clock;
  readonly counters: CounterTable;
  readonly configuration: Configuration;
  readonly onCountersReset: (counters: number) => void;
}

/**
 * Resets the named counters of this replica and logs who did it. Returns the error for a name that the configuration
 * does not have; nothing is reset then.
 *
 * @param source Address of the operator; undefined on a Unix socket.
 */
export async function resetLimits(
  parts: ResetParts,
  request: ResetRequest,
  source: string | undefined,
): Promise<LimitsReset | AdminError> {
  const { logs, clock, counters: table, configuration, onCountersReset } = parts;
  const selection = selectLimits(configuration.state().snapshot, request);
  if ("kind" in selection) return selection;
  const reset = await resetCounters(table, selection, request.key, clock.monotonicMs());
  const counters = [...reset.values()].reduce((sum, count) => sum + count, 0);
  onCountersReset(counters);
  const key = shownKey(selection, request.key);
  logs.logger("proxy::admin").info(
    {
      source: source ?? "unix socket",
      policy: selection.policy,
      ...(request.entry !== undefined && { entry: redactText(request.entry) }),
      ...(key !== undefined && { key: key.text }),
      counters,
    },
    "an operator has reset counters",
  );
  return {
    at: new Date(clock.nowMs()).toISOString(),
    policy: selection.policy,
    ...(key !== undefined && { key }),
    counters,
    entries: selection.entries.map((entry) => {
      return { ...describeEntry(entry), counters: reset.get(table.labelOf(entry.limit)) ?? 0 };
    }),
    leftOut: selection.leftOut.map(describeEntry),
  };
}

/** Returns the number of counters that had units, by the label of their entry. */
async function resetCounters(
  table: CounterTable,
  { entries }: ResetSelection,
  key: string | undefined,
  nowMs: number,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>(entries.map(({ limit }) => [table.labelOf(limit), 0]));
  const add = (label: string): void => void counts.set(label, (counts.get(label) ?? 0) + 1);
  if (key !== undefined && !isFingerprint(key)) {
    const limits = new Map(entries.map(({ limit }) => [table.labelOf(limit), limit]));
    for (const [label, limit] of limits) {
      if (table.resetOne(table.counterId(table.entryId(limit), key), nowMs)) add(label);
    }
    return counts;
  }
  const matches = (text: string | undefined): boolean =>
    key === undefined || (text !== undefined && redactValue(text, true).text === key);
  for (const label of table.reset(new Set(counts.keys()), nowMs, matches)) {
    if (label === undefined) await nextTurn();
    else add(label);
  }
  return counts;
}

/** Whether a key is given as `/limits` shows a secret. */
function isFingerprint(key: string): boolean {
  return /^sha256:[0-9a-f]{8}…/.test(key);
}

/** Returns the key as it may be shown. */
function shownKey({ entries }: ResetSelection, key: string | undefined): LimitsReset["key"] {
  if (key === undefined) return undefined;
  if (isFingerprint(key)) return { text: redactText(key), isSecret: true };
  return redactValue(
    key,
    entries.some(({ limit }) => isSecretExpression(limit.key ?? "")),
  );
}

function describeEntry({ limit, source }: SelectedLimit): LimitsReset["leftOut"][number] {
  const { entry, name, target, bucket } = limit;
  return { entry, ...(name !== undefined && { name }), target, source, ...(bucket !== undefined && { bucket }) };
}
