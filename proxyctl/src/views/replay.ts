/** The output of `proxyctl limits test`: a line per entry, and the sums. */
import { moneyText } from "@gatewayproxy/admin-api/amounts";
import { unitsOfMoney } from "@gatewayproxy/runtime/money";
import type { GlobalLimit } from "@gatewayproxy/proxy/global-limit";
import type { LocalLimit } from "@gatewayproxy/proxy/limit";
import { withoutControls } from "../output/controls.ts";
import type { Column } from "../output/table.ts";
import type { EntryOutcome, ReplayedLimit, ReplayOutcome } from "../replay/replay.ts";
import { none } from "./backends.ts";
import { describeLocal } from "./limit-words.ts";

/** The columns of `proxyctl limits test`; that of costs only where an entry counts them. */
export function replayColumns({ entries }: ReplayOutcome): readonly Column<EntryOutcome>[] {
  return entries.some(({ countsSpend }) => countsSpend) ? columns : columns.filter(({ head }) => head !== costHead);
}

const costHead = "COST";

const columns: readonly Column<EntryOutcome>[] = [
  { head: "POLICY", cell: ({ entry }) => `${entry.limit.policy}#${entryName(entry)}` },
  { head: "TARGET", cell: ({ entry }) => entry.limit.target },
  { head: "LIMIT", cell: ({ entry }) => describeLimit(entry) },
  { head: "ALLOWED", cell: ({ allowed }) => String(allowed) },
  { head: "DENIED", cell: ({ denied }) => String(denied) },
  { head: "TOKENS", cell: ({ countsTokens, tokens }) => (countsTokens ? String(tokens) : none) },
  { head: costHead, cell: ({ countsSpend, cost }) => (countsSpend ? moneyText(cost) : none) },
  { head: "FIRST-DENIED", cell: ({ firstDeniedMs }) => formatTime(firstDeniedMs) },
];

/** Describes `100 requests in 60.0s: 15 allowed, 85 denied, at a cost of 1.50 USD (10.00 USD without limits)`. */
export function describeReplay(outcome: ReplayOutcome): string {
  const { requests, allowed, denied, unmatched, spanMs } = outcome;
  const elsewhere = unmatched === 0 ? "" : `, ${unmatched} that match no rule`;
  return `${requests} requests in ${(spanMs / 1_000).toFixed(1)}s: ${allowed} allowed, ${denied} denied${elsewhere}${describeCost(outcome)}`;
}

function describeCost({ cost, costWithoutLimits = 0, currency }: ReplayOutcome): string {
  if (cost === undefined) return "";
  const money = (microUnits: number): string =>
    `${moneyText(microUnits)}${currency === undefined ? "" : ` ${withoutControls(currency)}`}`;
  return `, at a cost of ${money(cost)} (${money(costWithoutLimits)} without limits)`;
}

/** Returns the data of `-o json`. */
export function replayData({ entries, cost: total, costWithoutLimits, ...sums }: ReplayOutcome): object {
  return {
    ...sums,
    cost: total === undefined ? undefined : unitsOfMoney(total),
    costWithoutLimits: costWithoutLimits === undefined ? undefined : unitsOfMoney(costWithoutLimits),
    entries: entries.map(({ entry, allowed, denied, tokens, countsSpend, cost, firstDeniedMs }) => ({
      policy: entry.limit.policy,
      entry: entryIndex(entry),
      name: entry.kind === "local" ? entry.limit.name : undefined,
      target: entry.limit.target,
      limit: describeLimit(entry),
      mode: entry.limit.mode,
      allowed,
      denied,
      tokens,
      cost: countsSpend ? unitsOfMoney(cost) : undefined,
      firstDenied: firstDeniedMs === undefined ? undefined : formatTime(firstDeniedMs),
    })),
  };
}

/** Returns its index in the list, or `global`. */
function entryIndex(entry: ReplayedLimit): number | "global" {
  return entry.kind === "local" ? entry.limit.entry : "global";
}

/** Returns its name, or its index if it has none, or `global`. */
function entryName(entry: ReplayedLimit): string {
  return entry.kind === "local" ? (entry.limit.name ?? String(entry.limit.entry)) : "global";
}

function describeLimit(entry: ReplayedLimit): string {
  return entry.kind === "local" ? describeLocal(asEntry(entry.limit)) : describeDescriptors(entry.limit);
}

function asEntry({ unitCount = 1, window, reserves, ...limit }: LocalLimit): Parameters<typeof describeLocal>[0] {
  const timeZone = window?.kind === "Calendar" ? window.timeZone : undefined;
  return {
    ...limit,
    ...(reserves && { reserve: "Estimate" as const }),
    every: unitCount,
    window: window?.kind ?? "Fixed",
    timeZone,
    shareAcrossReplicas: false,
  };
}

/** Describes `domain "chat": requests by user, tokens by user and model (shadow)`. */
function describeDescriptors({ domain, descriptors, mode }: GlobalLimit): string {
  const parts = descriptors.map(({ counts, entries, reserves }) => {
    return `${counts} by ${entries.map(({ key }) => key).join(" and ")}${reserves ? " reserved by estimates" : ""}`;
  });
  return `domain ${JSON.stringify(domain)}: ${parts.join(", ")}${mode === "Shadow" ? " (shadow)" : ""}`;
}

/** Formats a time. Synthetic requests begin at 0, and their times are in seconds. */
function formatTime(ms: number | undefined): string {
  if (ms === undefined) return none;
  return ms < 1e9 ? `${(ms / 1_000).toFixed(3)}s` : new Date(ms).toISOString();
}
