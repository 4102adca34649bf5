/**
 * The full-screen view of a trace: the list of events, and the selected one in full at its right, or below it on a
 * narrow screen. Pure functions: a state, its changes by keys and events, and the lines that show it.
 */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import type { Styles } from "../output/style.ts";
import { fit, squeeze, wrap } from "../terminal/fit.ts";
import type { Key } from "../terminal/keys.ts";
import type { Size } from "../terminal/screen.ts";
import { describeEvent, detailOf, styleOf } from "./describe-event.ts";

/** The state of the view. */
export interface TraceViewState {
  /** Describes the traced request, for the first line. */
  readonly title: string;
  readonly events: readonly TraceEvent[];
  /** Index of the selected event; follows the newest one until a key moves it. */
  readonly selected: number;
  readonly isFollowing: boolean;
  /** The number of detail lines above the first one shown. */
  readonly scroll: number;
  /** The progress, for the last line. */
  readonly status: string;
}

/** The view before the first event. */
export function emptyView(title: string): TraceViewState {
  return { title, events: [], selected: 0, isFollowing: true, scroll: 0, status: "waiting for the request" };
}

/** Adds an event. */
export function withEvent(state: TraceViewState, event: TraceEvent): TraceViewState {
  const events = [...state.events, event];
  const status = `${events.length} events`;
  if (!state.isFollowing) return { ...state, events, status };
  return { ...state, events, status, selected: events.length - 1, scroll: 0 };
}

/** Applies a key; the caller handles `quit`. */
export function withKey(state: TraceViewState, key: Exclude<Key, "interrupt">, size: Size): TraceViewState {
  const page = layoutOf(state, size).detail.rows;
  switch (key) {
    case "up":
      return select(state, state.selected - 1);
    case "down":
      return select(state, state.selected + 1);
    case "home":
      return select(state, 0);
    case "end":
      return select(state, state.events.length - 1);
    case "pageUp":
      return { ...state, scroll: Math.max(0, state.scroll - page) };
    case "pageDown":
      return { ...state, scroll: boundScroll(state.scroll + page, state, size) };
    case "scrollUp":
      return { ...state, scroll: Math.max(0, state.scroll - 1) };
    case "scrollDown":
      return { ...state, scroll: boundScroll(state.scroll + 1, state, size) };
    case "quit":
      return state;
  }
}

function select(state: TraceViewState, index: number): TraceViewState {
  const last = Math.max(0, state.events.length - 1);
  return { ...state, selected: Math.min(last, Math.max(0, index)), isFollowing: index >= last, scroll: 0 };
}

/** Bounds the scroll position, so that the detail stays visible. */
function boundScroll(scroll: number, state: TraceViewState, size: Size): number {
  const { detail } = layoutOf(state, size);
  return Math.min(scroll, Math.max(0, detailLines(state, detail.columns).length - detail.rows));
}

/** The positions of list and detail. */
interface Layout {
  readonly isStacked: boolean;
  readonly list: Size;
  readonly detail: Size;
}

/** The minimum width for a detail at the side of a list with uncut rows. */
const sideBySideColumns = 140;
/** The minimum width of a detail at the side. */
const minDetailColumns = 40;
/** The width of mark, time and name before an event's text. */
const prefixColumns = 20;

function layoutOf({ events }: TraceViewState, { columns, rows }: Size): Layout {
  if (columns < sideBySideColumns) {
    // Without the title, two rules and the last line.
    const availableRows = Math.max(2, rows - 4);
    const listRows = Math.max(1, Math.min(Math.max(events.length, 3), Math.floor((availableRows * 3) / 5)));
    return {
      isStacked: true,
      list: { columns, rows: listRows },
      detail: { columns, rows: Math.max(1, availableRows - listRows) },
    };
  }
  const body = Math.max(1, rows - 3);
  const widest = Math.max(prefixColumns, ...events.map((event) => Array.from(renderEvent(event)).length));
  const listColumns = Math.min(widest, columns - minDetailColumns - 3);
  return {
    isStacked: false,
    list: { columns: listColumns, rows: body },
    detail: { columns: columns - listColumns - 3, rows: body },
  };
}

function detailLines({ events, selected }: TraceViewState, columns: number): readonly string[] {
  const event = events[selected];
  return event === undefined ? [] : detailOf(event).flatMap((line) => wrap(line, columns));
}

const help = "↑↓ choose   PgUp PgDn scroll   q quit";

/** Returns the lines of a screen of this size, each exactly as wide as the screen. */
export function renderTraceView(state: TraceViewState, size: Size, styles: Styles): readonly string[] {
  const { isStacked, list, detail } = layoutOf(state, size);
  const first = Math.max(0, Math.min(state.selected - Math.floor(list.rows / 2), state.events.length - list.rows));
  const rows = Array.from({ length: list.rows }, (_, row) => renderRow(state, first + row, list.columns, styles));
  const lines = detailLines(state, detail.columns);
  const details = Array.from({ length: detail.rows }, (_, row) => fit(lines[state.scroll + row] ?? "", detail.columns));
  const title = styles.strong(fit(squeeze(state.title, size.columns), size.columns));
  const foot = styles.faint(fit(`${help}   ${state.status}`, size.columns));
  const rule = styles.faint("─".repeat(size.columns));
  if (isStacked) return [title, rule, ...rows, rule, ...details, foot];
  const head = styles.faint(`${"─".repeat(list.columns + 1)}┬${"─".repeat(Math.max(0, detail.columns + 1))}`);
  const body = rows.map((row, at) => `${row} ${styles.faint("│")} ${details[at] ?? ""}`);
  return [title, head, ...body, foot];
}

function renderRow(state: TraceViewState, at: number, width: number, styles: Styles): string {
  const event = state.events[at];
  if (event === undefined) return fit("", width);
  const isSelected = at === state.selected;
  const text = renderEvent(event, width);
  // The mark is for terminals without colours.
  const styled = styleOf(event.severity, styles)(fit(isSelected ? `>${text.slice(1)}` : text, width));
  return isSelected ? styles.selected(styled) : styled;
}

/** Renders an event, with long names shortened to fit `width` columns. */
function renderEvent(event: TraceEvent, width = Number.POSITIVE_INFINITY): string {
  const { time, name, summary } = describeEvent(event);
  return ` ${time.padStart(9)} ${name.padEnd(8)} ${squeeze(summary, width - prefixColumns)}`;
}
