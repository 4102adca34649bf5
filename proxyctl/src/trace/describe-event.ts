/** A trace event in words: one line for a list, lines of YAML for a closer look. */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { describeMessage } from "@gatewayproxy/admin-api/trace-words";
import { withoutControls } from "../output/controls.ts";
import { renderYaml } from "../output/format.ts";
import type { Style, Styles } from "../output/style.ts";

/** What a list shows of an event. */
export interface EventLine {
  /** Since the request began: `0.42ms`. */
  readonly time: string;
  /** What happened, in a word or two. */
  readonly name: string;
  readonly summary: string;
}

/** Never throws; texts of clients are shown without what a terminal would obey. */
export function describeEvent({ eventEnd, message }: TraceEvent): EventLine {
  const { name, summary } = describeMessage(message);
  return { time: renderMicroseconds(eventEnd), name, summary: withoutControls(summary) };
}

/** The whole event, as YAML. */
export function detailOf({ eventStart, eventEnd, severity, message }: TraceEvent): readonly string[] {
  const took = eventEnd - eventStart;
  const head = {
    at: renderMicroseconds(eventStart),
    took: took === 0 ? undefined : renderMicroseconds(took),
    severity,
  };
  return renderYaml({ ...head, ...message })
    .trimEnd()
    .split("\n")
    .map(withoutControls);
}

/** How an event of this severity looks. */
export function styleOf(severity: TraceEvent["severity"], styles: Styles): Style {
  if (severity === "error") return styles.bad;
  if (severity === "warn") return styles.warning;
  return severity === "success" ? styles.good : (text) => text;
}

/** `0.42ms`, `1500.00ms`. */
export function renderMicroseconds(us: number): string {
  return `${(us / 1_000).toFixed(2)}ms`;
}
