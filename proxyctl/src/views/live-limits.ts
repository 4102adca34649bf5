/** The view of `proxyctl limits top`: counters whose window is open, and the rate limit services. */
import { amountText } from "@gatewayproxy/admin-api/amounts";
import type { LimitCounter, Limits, RateLimitService } from "@gatewayproxy/admin-api/limits";
import type { RedactedText } from "@gatewayproxy/admin-api/shape";
import type { Styles } from "../output/style.ts";
import { withoutControls } from "../output/controls.ts";
import { type Column, renderTable } from "../output/table.ts";
import { none } from "./backends.ts";
import { perWindow } from "./limit-words.ts";

/** Counters and services of one proxy. */
export interface LiveLimits {
  /** The pod or address. */
  readonly from: string;
  /** The response of `GET /limits`. */
  readonly limits: Limits;
}

interface CounterRow {
  readonly from: string;
  readonly counter: LimitCounter;
}

const counterColumns: readonly Column<CounterRow>[] = [
  {
    head: "POLICY",
    whenNarrow: "squeeze",
    cell: ({ counter }) => `${counter.policy}#${counter.name ?? counter.entry}`,
  },
  { head: "TARGET", whenNarrow: "leftOut", cell: ({ counter }) => counter.target },
  { head: "KEY", whenNarrow: "squeeze", cell: ({ counter }) => describeKey(counter.key) },
  { head: "COUNTS", whenNarrow: "cut", cell: ({ counter }) => describeCounted(counter) },
  { head: "LIMIT", align: "right", cell: ({ counter }) => amountText(counter.limit, counter.counts) },
  { head: "USED", align: "right", cell: ({ counter }) => amountText(counter.used, counter.counts) },
];

/** The part of what is used that requests in progress hold. */
const heldColumn: Column<CounterRow> = {
  head: "HELD",
  align: "right",
  cell: ({ counter }) => amountText(counter.held, counter.counts),
};

const lastColumns: readonly Column<CounterRow>[] = [
  { head: "REMAINING", align: "right", cell: ({ counter }) => amountText(counter.remaining, counter.counts) },
  { head: "RESET", align: "right", cell: ({ counter }) => `${counter.resetSeconds}s` },
];

const podColumn = { head: "POD", whenNarrow: "squeeze", cell: ({ from }: { readonly from: string }) => from } as const;

/** The size for output that is not a terminal. */
const unbounded = { columns: Number.POSITIVE_INFINITY, rows: Number.POSITIVE_INFINITY };

/**
 * Renders the tables, with a column for the pod if there are several proxies. Used-up counters are highlighted.
 * Counters that do not fit into `size` are left out from the end, with a note.
 */
export function renderLiveLimits(proxies: readonly LiveLimits[], styles: Styles, size = unbounded): string {
  const services = renderServices(proxies, size.columns);
  // A head above the counters, and below them a line for those left out and an empty one.
  const maxRows = Math.max(1, size.rows - 3 - services.split("\n").length);
  return [renderCounters(proxies, styles, size.columns, maxRows), services].filter((part) => part !== "").join("\n");
}

function renderCounters(proxies: readonly LiveLimits[], styles: Styles, width: number, maxRows: number): string {
  const all = proxies
    .flatMap(({ from, limits }) => limits.counters.map((counter) => ({ from, counter })))
    .sort((a, b) => remainingShare(a.counter) - remainingShare(b.counter));
  if (all.length === 0) return "No window of a limit is open.\n";
  const rows = all.slice(0, maxRows);
  const columns = [
    ...(proxies.length === 1 ? [] : [podColumn]),
    ...counterColumns,
    ...(rows.some(({ counter }) => counter.held > 0) ? [heldColumn] : []),
    ...lastColumns,
  ];
  const [head = "", ...lines] = renderTable(columns, rows, { width }).trimEnd().split("\n");
  const styled = lines.map((line, at) => styleRow(line, rows[at]?.counter, styles));
  const leftOut = proxies.reduce((sum, { limits }) => sum + limits.countersLeftOut, all.length - rows.length);
  const note = leftOut === 0 ? [] : [styles.faint(`${leftOut} more have more remaining`)];
  return `${[styles.strong(head), ...styled, ...note].join("\n")}\n`;
}

type ServiceRow = { readonly from: string; readonly service: RateLimitService };

const serviceColumns: readonly Column<ServiceRow>[] = [
  { head: "SERVICE", whenNarrow: "squeeze", cell: ({ service }) => service.service },
  { head: "BREAKER", cell: ({ service }) => describeBreaker(service) },
  { head: "SINCE", whenNarrow: "leftOut", cell: ({ service }) => service.since },
  ...(
    [
      ["BUFFERED", "chargesBuffered"],
      ["DENIALS", "denialsCached"],
      ["LEARNED", "limitsLearned"],
    ] as const
  ).map(([head, figure]): Column<ServiceRow> => {
    return { head, whenNarrow: "leftOut", align: "right", cell: ({ service }) => String(service[figure]) };
  }),
  { head: "LAST ERROR", whenNarrow: "cut", cell: ({ service }) => describeLastError(service) },
];

function renderServices(proxies: readonly LiveLimits[], width: number): string {
  const rows = proxies.flatMap(({ from, limits }) => limits.services.map((service) => ({ from, service })));
  if (rows.length === 0) return "";
  return renderTable(proxies.length === 1 ? serviceColumns : [podColumn, ...serviceColumns], rows, { width });
}

/** A service may fail without being unavailable: at its first failures, or if it rejects every call as invalid. */
function describeBreaker({ breaker, openOn, workers, failuresInARow }: RateLimitService): string {
  if (breaker === "open") return `open (${openOn} of ${workers} workers)`;
  return failuresInARow === 0 ? "closed" : `closed, ${failuresInARow} failed in a row`;
}

function describeLastError({ lastError }: RateLimitService): string {
  return lastError === undefined ? none : `${lastError.message}, at ${lastError.at}`;
}

function remainingShare({ remaining, limit }: LimitCounter): number {
  return limit === 0 ? 0 : remaining / limit;
}

function styleRow(line: string, counter: LimitCounter | undefined, styles: Styles): string {
  if (counter?.remaining === 0) return styles.bad(line);
  return counter !== undefined && remainingShare(counter) < 0.2 ? styles.warning(line) : line;
}

/** Renders the text of a client, or the fingerprint of a secret one. */
export function describeKey(key: RedactedText | undefined): string {
  return key === undefined ? none : withoutControls(key.text);
}

function describeCounted(counter: LimitCounter): string {
  const { counts, bucket, replicas, when, mode, source } = counter;
  const notes = [
    bucket === undefined ? undefined : `bucket ${bucket}`,
    replicas === undefined ? undefined : `share of ${replicas} ${replicas === 1 ? "replica" : "replicas"}`,
    mode === "Shadow" ? "shadow" : undefined,
    source === "fallback" ? "fallback" : undefined,
    when === undefined ? undefined : `when ${withoutControls(when)}`,
  ];
  const shown = notes.filter((note) => note !== undefined).join(", ");
  return `${counts}${perWindow(counter)}${shown === "" ? "" : ` (${shown})`}`;
}
