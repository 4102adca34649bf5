/** The variables of the OpenTelemetry specification that configure the export of logs. */
import type { Result } from "../text/problem.ts";
import { type BatchSettings, type Environment, type OtlpProtocol, VariableReader } from "../tracing/otel-variables.ts";

/** The settings of the export of logs. Plain data, which threads may share. */
export interface LogExportSettings {
  readonly protocol: OtlpProtocol;
  readonly resource: Readonly<Record<string, string>>;
  /** Of the queue of log records. */
  readonly batch: BatchSettings;
}

/**
 * Reads the settings of the export of logs; `value` is undefined if it is off. An endpoint alone does not switch it on:
 * it may be there for traces.
 *
 * @param resource default attributes of the resource.
 */
export function readLogExportSettings(
  env: Environment,
  resource: Readonly<Record<string, string>>,
): Result<LogExportSettings | undefined> {
  const reader = new VariableReader(env);
  const isDisabled = reader.boolean("OTEL_SDK_DISABLED") === true;
  const isOn = reader.isExported("LOGS") === true && !isDisabled;
  const settings: LogExportSettings = {
    protocol: reader.exporter("LOGS", "http/protobuf"),
    resource: reader.resource(resource),
    batch: reader.batch("OTEL_BLRP", 1_000),
  };
  // Variables of an export that is off must not prevent a start: they may be those of a whole cluster.
  if (!isOn) return reader.problemsOf("OTEL_SDK_DISABLED", "OTEL_LOGS_EXPORTER") ?? { ok: true, value: undefined };
  return reader.problems.length > 0 ? { ok: false, problems: reader.problems } : { ok: true, value: settings };
}
