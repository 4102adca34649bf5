/** What `proxyctl limits top` shows: counters whose window is open, and the rate limit services. */
import type { LimitCounter, Limits, RateLimitService } from "@gatewayproxy/admin-api/limits";
import type { ShownText } from "@gatewayproxy/admin-api/shape";
import type { Styles } from "../output/style.ts";
import { type Column, renderTable, withoutControls } from "../output/table.ts";
import { none } from "./backends.ts";

/** Counters and services of one proxy. */
export interface LiveLimits {
  /** Pod or address. */
  readonly from: string;
  readonly limits: Limits;
}

interface CounterRow {
  readonly from: string;
  readonly counter: LimitCounter;
}

const counterColumns: readonly Column<CounterRow>[] = [
  { head: "POLICY", cell: ({ counter }) => `${counter.policy}#${counter.entry}` },
  { head: "TARGET", cell: ({ counter }) => counter.target },
  { head: "KEY", cell: ({ counter }) => describeKey(counter.key) },
  { head: "COUNTS", cell: ({ counter }) => describeCounted(counter) },
  { head: "LIMIT", align: "right", cell: ({ counter }) => String(counter.limit) },
  { head: "USED", align: "right", cell: ({ counter }) => String(counter.used) },
  { head: "REMAINING", align: "right", cell: ({ counter }) => String(counter.remaining) },
  { head: "RESET", align: "right", cell: ({ counter }) => `${counter.resetSeconds}s` },
];

/** The tables, with a column for the pod where there are several proxies; exhausted counters stand out. */
export function renderLiveLimits(proxies: readonly LiveLimits[], styles: Styles): string {
  const rows = proxies
    .flatMap(({ from, limits }) => limits.counters.map((counter) => ({ from, counter })))
    .sort((a, b) => shareLeft(a.counter) - shareLeft(b.counter));
  const columns = proxies.length === 1 ? counterColumns : [podColumn, ...counterColumns];
  const [head = "", ...lines] = renderTable(columns, rows).trimEnd().split("\n");
  const styled = lines.map((line, at) => styleRow(line, rows[at]?.counter, styles));
  const counters =
    rows.length === 0
      ? "No limit has counted anything in a window that is open.\n"
      : `${[styles.strong(head), ...styled].join("\n")}\n`;
  const services = renderServices(proxies);
  return services === "" ? counters : `${counters}\n${services}`;
}

const podColumn: Column<CounterRow> = { head: "POD", cell: ({ from }) => from };

function renderServices(proxies: readonly LiveLimits[]): string {
  const rows = proxies.flatMap(({ from, limits }) => limits.services.map((service) => ({ from, service })));
  if (rows.length === 0) return "";
  const columns: readonly Column<(typeof rows)[number]>[] = [
    { head: "SERVICE", cell: ({ service }) => service.service },
    { head: "BREAKER", cell: ({ service }) => describeBreaker(service) },
    { head: "SINCE", cell: ({ service }) => service.since },
    { head: "BUFFERED", align: "right", cell: ({ service }) => String(service.chargesBuffered) },
    { head: "REFUSALS", align: "right", cell: ({ service }) => String(service.refusalsRemembered) },
    { head: "LEARNED", align: "right", cell: ({ service }) => String(service.limitsLearned) },
    { head: "LAST ERROR", cell: ({ service }) => describeLastError(service) },
  ];
  const pod: Column<(typeof rows)[number]> = { head: "POD", cell: ({ from }) => from };
  return renderTable(proxies.length === 1 ? columns : [pod, ...columns], rows);
}

/** A service may fail without being away: the first times, or by refusing every call as such. */
function describeBreaker({ breaker, openOn, workers, failuresInARow }: RateLimitService): string {
  if (breaker === "open") return `open (${openOn} of ${workers} workers)`;
  return failuresInARow === 0 ? "closed" : `closed, ${failuresInARow} failed in a row`;
}

function describeLastError({ lastError }: RateLimitService): string {
  return lastError === undefined ? none : withoutControls(`${lastError.message}, at ${lastError.at}`);
}

function shareLeft({ remaining, limit }: LimitCounter): number {
  return limit === 0 ? 0 : remaining / limit;
}

function styleRow(line: string, counter: LimitCounter | undefined, styles: Styles): string {
  if (counter?.remaining === 0) return styles.bad(line);
  return counter !== undefined && shareLeft(counter) < 0.2 ? styles.warning(line) : line;
}

/** Text of a client, or the fingerprint of a secret one. */
export function describeKey(key: ShownText | undefined): string {
  return key === undefined ? none : withoutControls(key.text);
}

function describeCounted({ counts, unit, mode, source }: LimitCounter): string {
  const notes = [mode === "Shadow" ? "shadow" : undefined, source === "fallback" ? "fallback" : undefined];
  const shown = notes.filter((note) => note !== undefined).join(", ");
  return `${counts}/${unit.toLowerCase().replace(/s$/, "")}${shown === "" ? "" : ` (${shown})`}`;
}
