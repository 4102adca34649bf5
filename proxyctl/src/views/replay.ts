/** The output of `proxyctl limits test`: a line per entry, and the sums. */
import type { GlobalLimit } from "@gatewayproxy/proxy/global-limit";
import type { LocalLimit } from "@gatewayproxy/proxy/limit";
import type { Column } from "../output/table.ts";
import type { EntryOutcome, ReplayedLimit, ReplayOutcome } from "../replay/replay.ts";
import { none } from "./backends.ts";
import { describeLocal } from "./limit-words.ts";

/** The columns of `proxyctl limits test`. */
export const replayColumns: readonly Column<EntryOutcome>[] = [
  { head: "POLICY", cell: ({ entry }) => `${entry.limit.policy}#${entryName(entry)}` },
  { head: "TARGET", cell: ({ entry }) => entry.limit.target },
  { head: "LIMIT", cell: ({ entry }) => describeLimit(entry) },
  { head: "ALLOWED", cell: ({ allowed }) => String(allowed) },
  { head: "DENIED", cell: ({ denied }) => String(denied) },
  { head: "TOKENS", cell: ({ countsTokens, tokens }) => (countsTokens ? String(tokens) : none) },
  { head: "FIRST-DENIED", cell: ({ firstDeniedMs }) => formatTime(firstDeniedMs) },
];

/** Describes `100 requests in 60.0s: 15 allowed, 85 denied`. */
export function describeReplay({ requests, allowed, denied, unmatched, spanMs }: ReplayOutcome): string {
  const elsewhere = unmatched === 0 ? "" : `, ${unmatched} that match no rule`;
  return `${requests} requests in ${(spanMs / 1_000).toFixed(1)}s: ${allowed} allowed, ${denied} denied${elsewhere}`;
}

/** Returns the data of `-o json`. */
export function replayData({ entries, ...sums }: ReplayOutcome): object {
  return {
    ...sums,
    entries: entries.map(({ entry, allowed, denied, tokens, firstDeniedMs }) => ({
      policy: entry.limit.policy,
      entry: entryIndex(entry),
      name: entry.kind === "local" ? entry.limit.name : undefined,
      target: entry.limit.target,
      limit: describeLimit(entry),
      mode: entry.limit.mode,
      allowed,
      denied,
      tokens,
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

function asEntry({ unitCount = 1, window, ...limit }: LocalLimit): Parameters<typeof describeLocal>[0] {
  const timeZone = window?.kind === "Calendar" ? window.timeZone : undefined;
  return { ...limit, every: unitCount, window: window?.kind ?? "Fixed", timeZone, shareAcrossReplicas: false };
}

/** Describes `domain "chat": requests by user, tokens by user and model (shadow)`. */
function describeDescriptors({ domain, descriptors, mode }: GlobalLimit): string {
  const parts = descriptors.map(({ counts, entries }) => `${counts} by ${entries.map(({ key }) => key).join(" and ")}`);
  return `domain ${JSON.stringify(domain)}: ${parts.join(", ")}${mode === "Shadow" ? " (shadow)" : ""}`;
}

/** Formats a time. Synthetic requests begin at 0, and their times are in seconds. */
function formatTime(ms: number | undefined): string {
  if (ms === undefined) return none;
  return ms < 1e9 ? `${(ms / 1_000).toFixed(3)}s` : new Date(ms).toISOString();
}
