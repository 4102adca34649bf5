/** The view of `proxyctl limits reset`: the counters that were reset, by entry. */
import type { LimitsReset } from "@gatewayproxy/admin-api/limits";
import { type Column, renderTable } from "../output/table.ts";

/** The result of one proxy. */
export interface PodReset {
  /** The pod or address. */
  readonly from: string;
  readonly result: LimitsReset;
}

interface ResetRow {
  readonly from: string;
  readonly result: LimitsReset;
  readonly entry: LimitsReset["leftOut"][number];
  /** Undefined for an entry that is left out. */
  readonly counters: number | undefined;
}

const columns: readonly Column<ResetRow>[] = [
  { head: "POLICY", cell: ({ result, entry }) => `${result.policy}#${entry.name ?? entry.entry}` },
  { head: "LIST", cell: ({ entry }) => entry.source },
  { head: "TARGET", cell: ({ entry }) => entry.target },
  { head: "KEY", cell: ({ result }) => result.key?.text ?? "all" },
  { head: "RESET", align: "right", cell: ({ counters }) => (counters === undefined ? "-" : String(counters)) },
];

const podColumn: Column<ResetRow> = { head: "POD", cell: ({ from }) => from };

/** Renders one table, with a column for the pod if there are several. */
export function renderResets(resets: readonly PodReset[]): string {
  const rows = resets.flatMap(({ from, result }) => [
    ...result.entries.map(({ counters, ...entry }): ResetRow => ({ from, result, entry, counters })),
    ...result.leftOut.map((entry): ResetRow => ({ from, result, entry, counters: undefined })),
  ]);
  const notes = ({ entry, counters }: ResetRow): readonly string[] => [
    ...(counters === undefined ? ["not reset: requests in progress are counted until they end"] : []),
    ...(entry.bucket === undefined ? [] : [`the counters of bucket ${entry.bucket} are shared by its entries`]),
  ];
  return renderTable(resets.length > 1 ? [podColumn, ...columns] : columns, rows, { notes });
}
