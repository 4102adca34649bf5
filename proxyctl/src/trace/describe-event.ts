/** Describes a trace event: one line for a list, and lines of YAML for details. */
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { describeMessage } from "@gatewayproxy/admin-api/describe-message";
import { withoutControls } from "../output/controls.ts";
import { renderYaml } from "../output/format.ts";
import type { Style, Styles } from "../output/style.ts";

/** The line of an event in a list. */
export interface EventLine {
  /** The time since the request began: `0.42ms`. */
  readonly time: string;
  /** What happened, in one or two words. */
  readonly name: string;
  readonly summary: string;
}

/** Describes an event. Never throws; control characters in texts from clients are escaped. */
export function describeEvent({ eventEnd, message }: TraceEvent): EventLine {
  const { name, summary } = describeMessage(message);
  return { time: renderMicroseconds(eventEnd), name, summary: withoutControls(summary) };
}

/** Renders the whole event as YAML. */
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

/** Returns the style for a severity. */
export function styleOf(severity: TraceEvent["severity"], styles: Styles): Style {
  if (severity === "error") return styles.bad;
  if (severity === "warn") return styles.warning;
  return severity === "success" ? styles.good : (text) => text;
}

/** Formats `0.42ms`, `1500.00ms`. */
export function renderMicroseconds(us: number): string {
  return `${(us / 1_000).toFixed(2)}ms`;
}
