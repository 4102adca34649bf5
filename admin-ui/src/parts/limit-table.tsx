/** A table of limits with their usage: those with an open counter, and those without. */
import { moneyText } from "@gatewayproxy/admin-api/amounts";
import type { DumpedPolicy } from "@gatewayproxy/admin-api/config-dump";
import type { LimitCounter } from "@gatewayproxy/admin-api/limits";
import type { Denial } from "@gatewayproxy/admin-api/traffic";
import { formatCount, formatSeconds } from "../format.ts";
import { type Column, DataTable } from "./data-table.tsx";
import { Gauge } from "./gauge.tsx";
import { type Amount, describeLimit, describeTerms, describeUnits, type Terms } from "./limit-words.ts";

/** A limit at one target, for one value of its key. */
export interface LimitRow extends Pick<LimitCounter, "policy" | "target" | "entry" | "source"> {
  readonly name?: string | undefined;
  readonly limit: Amount & Terms & Pick<LimitCounter, "mode">;
  /** The CEL expression of the key; absent if all requests share one counter. */
  readonly keyExpression?: string | undefined;
  /** Absent if no counter is open. */
  readonly counter?: LimitCounter;
}

/** Returns rows in the order of the counters: least remaining first. */
export function countedRows(counters: readonly LimitCounter[]): readonly LimitRow[] {
  return counters.map((counter) => {
    const { policy, target, entry, name, source, counts, limit, burst, unit, every, mode } = counter;
    const { window, timeZone, bucket, replicas, when } = counter;
    const amount = { counts, amount: limit - burst, burst, unit, every };
    const described = { ...amount, mode, window, timeZone, bucket, replicas, when };
    return { policy, target, entry, name, source, limit: described, counter };
  });
}

/** Returns rows of local limits in effect that have no open counter. */
export function untouchedRows(
  policies: readonly DumpedPolicy[],
  counters: readonly LimitCounter[],
): readonly LimitRow[] {
  const open = new Set(counters.map(idOf));
  return policies.flatMap(({ namespace, name, targets, local }) => {
    const policy = `${namespace}/${name}`;
    return targets
      .filter(({ isAttached }) => isAttached)
      .flatMap(({ target }) =>
        local.map((limit, entry): LimitRow => {
          const replicas = limit.shareAcrossReplicas ? true : undefined;
          const { name, key: keyExpression } = limit;
          return { policy, target, entry, name, source: "local", limit: { ...limit, replicas }, keyExpression };
        }),
      )
      .filter(({ limit, ...row }) => !open.has(idOf({ ...row, bucket: limit.bucket })));
  });
}

/** A counter of a bucket is listed once for an entry, whatever the target. */
function idOf({ policy, target, entry, source, bucket }: OpenLimit): string {
  return JSON.stringify([policy, bucket === undefined ? target : "", entry, source]);
}

type OpenLimit = Pick<LimitCounter, "policy" | "target" | "entry" | "source"> & {
  readonly bucket?: string | undefined;
};

/** A table of limits. */
export function LimitTable(props: {
  caption: string;
  rows: readonly LimitRow[];
  /** Denials by limit; absent: the column is left out. */
  denials?: readonly Denial[] | undefined;
}) {
  const { caption, rows, denials } = props;
  return (
    <DataTable
      caption={caption}
      columns={denials === undefined ? columns : [...columns, deniedColumn(denials)]}
      rows={rows}
      keyOf={({ policy, target, entry, source, counter }) =>
        JSON.stringify([policy, target, entry, source, counter?.key?.text])
      }
      toneOf={({ counter }) => (counter === undefined ? undefined : rowTone(counter))}
    />
  );
}

const columns: readonly Column<LimitRow>[] = [
  { head: "Limit", cell: (row) => <Limit row={row} /> },
  { head: "Counted for", cell: (row) => <Key row={row} /> },
  { head: "Used", cell: (row) => <Used row={row} /> },
  {
    head: "Left",
    isNumber: true,
    cell: ({ counter, limit: { counts, amount, burst } }) =>
      describeUnits(counter === undefined ? amount + burst : counter.remaining, counts),
  },
  {
    head: "Window ends in",
    isNumber: true,
    cell: ({ counter }) => (counter === undefined ? "–" : formatSeconds(counter.resetSeconds)),
  },
];

function Limit({ row: { policy, target, entry, name = String(entry), source, limit } }: { row: LimitRow }) {
  return (
    <>
      {describeLimit(limit)}
      {describeTerms(limit).map((term) => (
        <div key={term} class="note">
          {term}
        </div>
      ))}
      <div class="note">
        {policy}#{name} on {target}
        {source === "fallback" && ", while the rate limit service is unavailable"}
        {limit.mode === "Shadow" && ", shadow mode: denies nothing"}
      </div>
    </>
  );
}

function Key({ row: { counter, keyExpression } }: { row: LimitRow }) {
  if (counter?.key !== undefined) return <code>{counter.key.text}</code>;
  if (keyExpression === undefined) return <>all requests</>;
  return (
    <>
      each <code>{keyExpression}</code>, none in this window
    </>
  );
}

function Used({ row: { counter, limit } }: { row: LimitRow }) {
  const { counts, amount, burst } = limit;
  const capacity = counter?.limit ?? amount + burst;
  const used = counter?.used ?? 0;
  // All that is used of a limit of concurrent requests is in progress.
  const held = counts === "concurrent" ? 0 : (counter?.held ?? 0);
  return (
    <div class="used">
      <Gauge share={used / capacity} tone={counter === undefined ? "good" : (rowTone(counter) ?? "good")} />{" "}
      <span class="whole">
        {counts === "spend" ? moneyText(used) : formatCount(used)} of {describeUnits(capacity, counts)}
      </span>
      {held > 0 && <div class="note">{describeUnits(held, counts)} held by requests in progress</div>}
    </div>
  );
}

/** Denials are not counted by key. */
function describeDenied({ limit: { mode }, counter, keyExpression }: LimitRow, denial: Denial | undefined): string {
  const count = formatCount((mode === "Shadow" ? denial?.shadowDenied : denial?.denied) ?? 0);
  const isKeyed = counter?.key !== undefined || keyExpression !== undefined;
  const left =
    denial === undefined || denial.notApplied === 0 ? "" : `, not applied to ${formatCount(denial.notApplied)}`;
  return `${count}${isKeyed ? " for all keys" : ""}${mode === "Shadow" ? " in shadow mode" : ""}${left}`;
}

/** The share of a limit from which a counter is highlighted. */
const nearEnd = 0.8;

function rowTone({ used, limit, remaining, mode }: LimitCounter): "bad" | "warn" | undefined {
  if (remaining === 0) return mode === "Shadow" ? "warn" : "bad";
  return used >= nearEnd * limit ? "warn" : undefined;
}

function deniedColumn(denials: readonly Denial[]): Column<LimitRow> {
  return {
    head: "Denied since start",
    isNumber: true,
    cell(row) {
      const isOf = ({ policy, target, entry, name }: Denial): boolean =>
        policy === row.policy &&
        target === row.target &&
        (row.name === undefined ? entry === row.entry : name === row.name);
      return row.source === "fallback" ? "–" : describeDenied(row, denials.find(isOf));
    },
  };
}
