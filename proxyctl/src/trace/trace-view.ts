/**
 * The trace on a terminal: the list of events at the left, the chosen one in full at the right. A state, what keys and
 * events do to it, and the lines that show it; nothing here touches a terminal.
 */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { Styles } from "../output/style.ts";
import { fit, wrap } from "../terminal/fit.ts";
import type { Key } from "../terminal/keys.ts";
import type { Size } from "../terminal/screen.ts";
import { describeEvent, detailOf, styleOf } from "./describe-event.ts";

export interface TraceViewState {
  /** What is traced, for the first line. */
  readonly title: string;
  readonly events: readonly TraceEvent[];
  /** Place of the chosen event; follows the newest one until a key moves it. */
  readonly chosen: number;
  readonly isFollowing: boolean;
  /** Lines of the detail above its first one shown. */
  readonly scroll: number;
  /** How far things are, for the last line. */
  readonly status: string;
}

/** Before anything has come. */
export function emptyView(title: string): TraceViewState {
  return { title, events: [], chosen: 0, isFollowing: true, scroll: 0, status: "waiting for the request" };
}

export function withEvent(state: TraceViewState, event: TraceEvent): TraceViewState {
  const events = [...state.events, event];
  const status = `${events.length} events`;
  if (!state.isFollowing) return { ...state, events, status };
  return { ...state, events, status, chosen: events.length - 1, scroll: 0 };
}

/** What a key does; `quit` is the caller's. */
export function withKey(state: TraceViewState, key: Key, size: Size): TraceViewState {
  const page = listRows(size);
  switch (key) {
    case "up":
      return choose(state, state.chosen - 1);
    case "down":
      return choose(state, state.chosen + 1);
    case "home":
      return choose(state, 0);
    case "end":
      return choose(state, state.events.length - 1);
    case "pageUp":
      return { ...state, scroll: Math.max(0, state.scroll - page) };
    case "pageDown":
      return { ...state, scroll: bounded(state.scroll + page, state, size) };
    case "scrollUp":
      return { ...state, scroll: Math.max(0, state.scroll - 1) };
    case "scrollDown":
      return { ...state, scroll: bounded(state.scroll + 1, state, size) };
    case "quit":
      return state;
  }
}

function choose(state: TraceViewState, wanted: number): TraceViewState {
  const last = Math.max(0, state.events.length - 1);
  return { ...state, chosen: Math.min(last, Math.max(0, wanted)), isFollowing: wanted >= last, scroll: 0 };
}

/** The detail never scrolls out of sight. */
function bounded(scroll: number, state: TraceViewState, size: Size): number {
  return Math.min(scroll, Math.max(0, detailLines(state, size).length - listRows(size)));
}

/** Rows between the title with its rule and the last line. */
function listRows({ rows }: Size): number {
  return Math.max(1, rows - 3);
}

/** Columns of the list; a little more than half, for its lines are read first. */
function listColumns({ columns }: Size): number {
  return Math.max(20, Math.floor((columns * 11) / 20));
}

function detailColumns(size: Size): number {
  return Math.max(8, size.columns - listColumns(size) - 3);
}

function detailLines({ events, chosen }: TraceViewState, size: Size): readonly string[] {
  const event = events[chosen];
  return event === undefined ? [] : detailOf(event).flatMap((line) => wrap(line, detailColumns(size)));
}

const help = "↑↓ choose   PgUp PgDn scroll   q quit";

/** The lines of a screen of this size, each exactly as wide as it. */
export function renderTraceView(state: TraceViewState, size: Size, styles: Styles): readonly string[] {
  const [left, rows] = [listColumns(size), listRows(size)];
  const right = detailColumns(size);
  const first = Math.max(0, Math.min(state.chosen - Math.floor(rows / 2), state.events.length - rows));
  const details = detailLines(state, size);
  const body = Array.from({ length: rows }, (_, row) => {
    const at = first + row;
    const detail = fit(details[state.scroll + row] ?? "", right);
    return `${renderRow(state, at, left, styles)} ${styles.faint("│")} ${detail}`;
  });
  const rule = styles.faint(`${"─".repeat(left + 1)}┬${"─".repeat(Math.max(0, size.columns - left - 2))}`);
  const foot = fit(`${help}   ${state.status}`, size.columns);
  return [styles.strong(fit(state.title, size.columns)), rule, ...body, styles.faint(foot)];
}

function renderRow(state: TraceViewState, at: number, width: number, styles: Styles): string {
  const event = state.events[at];
  if (event === undefined) return fit("", width);
  const { time, name, summary } = describeEvent(event);
  const isChosen = at === state.chosen;
  // The mark is for terminals without colours.
  const text = fit(`${isChosen ? ">" : " "}${time.padStart(9)} ${name.padEnd(12)} ${summary}`, width);
  const styled = styleOf(event.severity, styles)(text);
  return isChosen ? styles.chosen(styled) : styled;
}
