/** The settings of the access log, and the kinds of their values. */
import type { Result } from "@gatewayproxy/runtime/problem";
import { duration, number, oneOf, optional, type SettingKind, text } from "@gatewayproxy/runtime/setting-kinds";
import type { SettingValues } from "@gatewayproxy/runtime/settings";
import { type AccessLogSettings, parseFilter } from "../telemetry/access-log/access-log.ts";
import { allFields, parseFields } from "../telemetry/access-log/fields.ts";
import { accessLogModes } from "../telemetry/access-log/selection.ts";
import { parseTemplate } from "../telemetry/access-log/template.ts";

/** Accepts a text that `parse` accepts. The text itself is the value: threads get it, and parse it again. */
function parsed(placeholder: string, accepted: string, parse: (value: string) => Result<unknown>): SettingKind<string> {
  return {
    placeholder,
    accepted,
    parse: (value) => (parse(value).ok ? value : undefined),
    explain(value) {
      const result = parse(value);
      return result.ok ? "" : result.problems.map(({ message }) => message).join("; ");
    },
  };
}

/** The settings by name. */
export const accessLogSettings = {
  accessLog: {
    kind: oneOf(...accessLogModes),
    flag: "access-log",
    env: "ACCESS_LOG",
    default: "on",
    help: "Which requests are logged: all, only those that were denied, rejected or failed, or none.",
  },
  accessLogSuccessRatio: {
    kind: number(0, 1),
    flag: "access-log-success-ratio",
    env: "ACCESS_LOG_SUCCESS_RATIO",
    default: "1",
    help: "The share of successful requests that is logged, chosen at random. A request with a status of 400 or more, with an error of gRPC, that a limit denied or would have denied, or that was slow (--access-log-slow), is always logged.",
  },
  accessLogSlow: {
    kind: duration(0, 86_400_000),
    flag: "access-log-slow",
    env: "ACCESS_LOG_SLOW",
    default: "10s",
    help: "The duration from which on a successful request is logged whatever --access-log-success-ratio is. With 0ms, no duration is.",
  },
  accessLogFilter: {
    kind: optional(parsed("CEL", "a condition in CEL", parseFilter)),
    flag: "access-log-filter",
    env: "ACCESS_LOG_FILTER",
    defaultText: "none",
    help: "A condition on requests: those for which it is false are not logged.",
  },
  accessLogFields: {
    kind: parsed("LIST", "a list of fields such as *; tenant=jwt.tenant", parseFields),
    flag: "access-log-fields",
    env: "ACCESS_LOG_FIELDS",
    default: allFields,
    help: "The fields of each line of JSON and of each record of OTLP, separated by semicolons or newlines: * for all, NAME for one of them, -NAME to leave one out, NAME=CEL for another one.",
  },
  accessLogTemplate: {
    kind: optional(parsed("TEMPLATE", "text with CEL expressions in ${…}", parseTemplate)),
    flag: "access-log-template",
    env: "ACCESS_LOG_TEMPLATE",
    defaultText: "lines of JSON",
    help: "Writes lines of text instead of JSON: this text, in which ${CEL} stands for the value of an expression, and $${ for the characters ${.",
  },
  accessLogStdout: {
    kind: oneOf("on", "off"),
    flag: "access-log-stdout",
    env: "ACCESS_LOG_STDOUT",
    default: "on",
    help: "Whether lines of the access log are written to standard output.",
  },
  accessLogFile: {
    kind: optional(text("FILE", "the path of a file")),
    flag: "access-log-file",
    env: "ACCESS_LOG_FILE",
    defaultText: "none",
    help: "A file that lines of the access log are appended to. SIGHUP opens it again, after a program that rotates logs has moved it.",
  },
} as const;

/** Returns the settings for the telemetry of a worker. */
export function accessLogOf(settings: SettingValues<typeof accessLogSettings>): AccessLogSettings {
  return {
    mode: settings.accessLog,
    successRatio: settings.accessLogSuccessRatio,
    slowMs: settings.accessLogSlow,
    filter: settings.accessLogFilter,
    fields: settings.accessLogFields,
    template: settings.accessLogTemplate,
  };
}
