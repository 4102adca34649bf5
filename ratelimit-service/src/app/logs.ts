/** The loggers of a thread, by LOG_LEVEL and LOG_FORMAT. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { Logs } from "@gatewayproxy/runtime/log";
import type { LogDestination } from "@gatewayproxy/runtime/log-destination";
import type { LogFilter } from "@gatewayproxy/runtime/log-filter";

/** The settings of the log. */
export interface LogSettings {
  /** LOG_LEVEL */
  readonly filter: LogFilter;
  /** LOG_FORMAT */
  readonly format: "text" | "json";
}

/** @param bindings fields of every line */
export function createLogs(
  { filter, format }: LogSettings,
  clock: Clock,
  output: LogDestination,
  bindings: Readonly<Record<string, number>> = {},
): Logs {
  const destination = format === "json" ? output : { write: (line: string) => output.write(textLine(line)) };
  return new Logs({ filter, clock, destination, bindings });
}

/**
 * Formats a JSON log line as text: `2026-11-21T10:00:00.000Z info ratelimit::config configuration loaded domains=3`.
 */
export function textLine(json: string): string {
  // The logger writes one JSON object per line.
  const { time, level, module, msg, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const rest = Object.entries(fields).map(([name, value]) => ` ${name}=${fieldText(value)}`);
  return `${String(time)} ${String(level)} ${String(module)} ${String(msg)}${rest.join("")}\n`;
}

/** Formats an error as its message only. LOG_FORMAT=json has the stack. */
function fieldText(value: unknown): string {
  if (typeof value === "object" && value !== null && "message" in value && "stack" in value) {
    return JSON.stringify(value.message);
  }
  return typeof value === "string" && /^[\w./:@+-]+$/.test(value) ? value : JSON.stringify(value);
}
