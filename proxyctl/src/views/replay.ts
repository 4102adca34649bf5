/** What `proxyctl limits test` prints: a line per entry, and the sum. */
import type { LocalLimit } from "@gatewayproxy/proxy/ir/limit";
import type { Column } from "../output/table.ts";
import type { EntryOutcome, ReplayOutcome } from "../replay/replay.ts";
import { none } from "./backends.ts";
import { describeLocal } from "./limit-words.ts";

export const replayColumns: readonly Column<EntryOutcome>[] = [
  { head: "POLICY", cell: ({ limit }) => `${limit.policy}#${limit.entry}` },
  { head: "TARGET", cell: ({ limit }) => limit.target },
  { head: "LIMIT", cell: ({ limit }) => describeLocal(asEntry(limit)) },
  { head: "ADMITTED", cell: ({ admitted }) => String(admitted) },
  { head: "DENIED", cell: ({ denied }) => String(denied) },
  { head: "TOKENS", cell: ({ limit, tokens }) => (limit.counts === "tokens" ? String(tokens) : none) },
  { head: "FIRST-DENIED", cell: ({ firstDeniedMs }) => stampOf(firstDeniedMs) },
];

/** `100 requests in 60.0s: 15 admitted, 85 denied`. */
export function describeReplay({ requests, admitted, denied, unserved, spanMs }: ReplayOutcome): string {
  const elsewhere = unserved === 0 ? "" : `, ${unserved} that no rule serves`;
  return `${requests} requests in ${(spanMs / 1_000).toFixed(1)}s: ${admitted} admitted, ${denied} denied${elsewhere}`;
}

/** For `-o json`. */
export function replayData({ entries, ...sums }: ReplayOutcome): object {
  return {
    ...sums,
    entries: entries.map(({ limit, firstDeniedMs, ...counts }) => ({
      policy: limit.policy,
      entry: limit.entry,
      target: limit.target,
      limit: describeLocal(asEntry(limit)),
      mode: limit.mode,
      ...counts,
      firstDenied: firstDeniedMs === undefined ? undefined : stampOf(firstDeniedMs),
    })),
  };
}

function asEntry({ counts, amount, burst, unit, key, mode }: LocalLimit): Parameters<typeof describeLocal>[0] {
  return { counts, amount, burst, unit, key, mode };
}

/** A made-up load begins at 0 and is told in seconds. */
function stampOf(ms: number | undefined): string {
  if (ms === undefined) return none;
  return ms < 1e9 ? `${(ms / 1_000).toFixed(3)}s` : new Date(ms).toISOString();
}
