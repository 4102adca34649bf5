/** Logs problems of exports by OTLP. */
import { LineLimit } from "../log/line-limit.ts";
import type { Logger } from "../log/log.ts";
import { redactText } from "../log/redaction.ts";
import { systemClock } from "../timing/clock.ts";

/**
 * Returns a function that logs problems of the exporters of one thread, which the SDK reports together.
 *
 * @param log of a module whose lines are not exported: a failing export would otherwise have ever more lines to export.
 */
export function exportProblems(log: Logger): (error: string) => void {
  const lines = new LineLimit(systemClock, 1);
  return (error) => lines.log((omitted) => log.warn({ error: redactText(error), omitted }, "OTLP export failed"));
}
