/**
 * The access log: one line per finished request, with all that decided its fate. A path is logged without its query,
 * for a query may hold a key; headers other than the user agent are not logged at all.
 *
 * The lines look like those of the loggers but are made here: one `JSON.stringify` of an object of constant shape costs
 * an eighth of what the logging library takes for so many fields, and this happens for every request.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { type Logger, withoutControls } from "@gatewayproxy/runtime/log";
import type { LogDestination } from "@gatewayproxy/runtime/log-destination";
import { shownText } from "@gatewayproxy/runtime/redaction";
import type { GlobalDecision } from "../ir/global-limit.ts";
import type { LimitDecision } from "../ir/limit.ts";
import type { RequestRecord } from "./request-record.ts";

/** `denied-and-failed` leaves out what a backend answered below 500 and no limit minded, not even one in Shadow. */
export const accessLogModes = ["on", "off", "denied-and-failed"] as const;
export type AccessLogMode = (typeof accessLogModes)[number];

export type AccessLog = (record: RequestRecord) => void;

/** The module to name in a log filter; its level is `info`. */
export const accessLogModule = "proxy::access";

export interface AccessLogOptions {
  readonly mode: AccessLogMode;
  /** The logger of `accessLogModule`, asked whether its level is on. */
  readonly logger: Pick<Logger, "isLevelEnabled">;
  readonly destination: LogDestination;
  readonly clock: Clock;
}

export function createAccessLog({ mode, logger, destination, clock }: AccessLogOptions): AccessLog {
  if (mode === "off") return () => undefined;
  const stamp = createStamp(clock);
  return (record) => {
    if (mode === "denied-and-failed" && !isDeniedOrFailed(record)) return;
    if (logger.isLevelEnabled("info"))
      destination.write(`${withoutControls(JSON.stringify(fieldsOf(stamp(), record)))}\n`);
  };
}

/** The time in ISO 8601; rendered once a millisecond, in which a busy worker finishes dozens of requests. */
function createStamp(clock: Clock): () => string {
  let renderedMs = Number.NaN;
  let rendered = "";
  return () => {
    const nowMs = clock.nowMs();
    if (nowMs !== renderedMs) {
      renderedMs = nowMs;
      rendered = new Date(nowMs).toISOString();
    }
    return rendered;
  };
}

function isDeniedOrFailed({ reason, status, decisions, globalDecisions }: RequestRecord): boolean {
  if (reason !== undefined || status >= 500) return true;
  return [...decisions, ...globalDecisions].some(({ outcome }) => outcome !== "allowed");
}

/** In the order of the line: what was asked, where it went, what came of it. `undefined` is left out of the line. */
function fieldsOf(time: string, record: RequestRecord) {
  const { usage, decisions } = record;
  return {
    level: "info",
    time,
    module: accessLogModule,
    requestId: record.requestId,
    source: record.sourceAddress,
    method: cut(shownText(record.method)),
    scheme: record.scheme,
    authority: cut(shownText(record.authority)),
    path: cut(shownText(withoutQuery(record.path))),
    httpVersion: record.httpVersion,
    userAgent: record.userAgent === undefined ? undefined : cut(shownText(record.userAgent)),
    listener: record.listener,
    route: record.route,
    rule: record.rule,
    backend: record.backend,
    endpoint: record.endpoint,
    calls: record.calls > 1 ? record.calls : undefined,
    status: record.status,
    reason: record.reason,
    durationMs: roundToMicroseconds(record.durationMs),
    upstreamMs: record.upstreamMs === undefined ? undefined : roundToMicroseconds(record.upstreamMs),
    requestBytes: record.requestBytes,
    responseBytes: record.responseBytes,
    inputTokens: usage?.input,
    outputTokens: usage?.output,
    totalTokens: usage?.total,
    model: usage?.model === undefined ? undefined : cut(shownText(usage.model)),
    usageEstimated: usage?.estimated === true ? true : undefined,
    usageUnread: record.usageUnread,
    deniedBy: entriesWith("denied", decisions),
    shadowDeniedBy: entriesWith("shadowDenied", decisions),
    globalLimits: globalOutcomes(record.globalDecisions),
    msg: "request",
  };
}

/** `policy#entry target`, as in `default/chat#0 HTTPRoute/default/chat`; absent when no entry decided so. */
function entriesWith(outcome: LimitDecision["outcome"], decisions: readonly LimitDecision[]): string[] | undefined {
  let entries: string[] | undefined;
  for (const { limit, outcome: found } of decisions) {
    if (found !== outcome) continue;
    entries ??= [];
    entries.push(`${limit.policy}#${limit.entry} ${limit.target}`);
  }
  return entries;
}

/** `policy target: outcome by whom`, as in `default/chat HTTPRoute/default/chat: denied by service`; absent for none. */
function globalOutcomes(decisions: readonly GlobalDecision[]): string[] | undefined {
  if (decisions.length === 0) return undefined;
  return decisions.map(({ limit, outcome, by }) => `${limit.policy} ${limit.target}: ${outcome} by ${by}`);
}

/** Without query and fragment. */
function withoutQuery(path: string): string {
  const end = path.search(/[?#]/);
  return end === -1 ? path : path.slice(0, end);
}

/** Text of the client's beyond this length is cut: a line should stay readable. */
const MAX_TEXT = 1_024;

function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}

function roundToMicroseconds(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
