/** Problems of the OpenTelemetry SDK in this thread, which has one logger for all of its exporters. */
import { diag, DiagLogLevel } from "@opentelemetry/api";
import type { ReportProblem } from "./export-observer.ts";

/** The longest message that is reported. */
const maxMessage = 500;

/** Passes the warnings and errors of the SDK to `report`, in place of an earlier receiver of this thread. */
export function reportDiagnostics(report: ReportProblem): void {
  const ignore = (): void => undefined;
  const pass = (message: string): void => report(message.slice(0, maxMessage));
  const logger = { error: pass, warn: pass, info: ignore, debug: ignore, verbose: ignore };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
}
