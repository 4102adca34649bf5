/**
 * The access log: one line per finished request. A path is logged without its query, since a query may hold a key.
 * Headers other than the user agent are not logged.
 *
 * The lines look like those of the loggers but are built here by one `JSON.stringify` of an object of constant shape. The
 * logging library would serialize and join the many fields one by one.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { type Logger, withoutControls } from "@gatewayproxy/runtime/log";
import type { LogDestination } from "@gatewayproxy/runtime/log-destination";
import { unitsOfMoney } from "@gatewayproxy/runtime/money";
import type { GlobalDecision } from "../ir/global-limit.ts";
import type { LimitDecision } from "../ir/limit.ts";
import type { RequestRecord } from "./request-record.ts";
import { shownPath, shownText } from "./shown-text.ts";

/**
 * `denied-and-failed` leaves out requests with a response below 500 from a backend that no limit denied, not even one
 * in mode Shadow.
 */
export const accessLogModes = ["on", "off", "denied-and-failed"] as const;
/** The requests that are logged. */
export type AccessLogMode = (typeof accessLogModes)[number];

/** Logs one finished request. */
export type AccessLog = (record: RequestRecord) => void;

/** The module name for log filters; the level of its lines is `info`. */
export const accessLogModule = "proxy::access";

/** Options of `createAccessLog`. */
export interface AccessLogOptions {
  /** The requests that are logged. */
  readonly mode: AccessLogMode;
  /** The logger of `accessLogModule`, whose level decides whether lines are written. */
  readonly logger: Pick<Logger, "isLevelEnabled">;
  /** Receives the lines. */
  readonly destination: LogDestination;
  /** The time of each line. */
  readonly clock: Clock;
}

/** Creates the access log. */
export function createAccessLog({ mode, logger, destination, clock }: AccessLogOptions): AccessLog {
  if (mode === "off") return () => undefined;
  const timestamp = createTimestamp(clock);
  return (record) => {
    if (mode === "denied-and-failed" && !isDeniedOrFailed(record)) return;
    if (logger.isLevelEnabled("info")) {
      destination.write(`${withoutControls(JSON.stringify(fieldsOf(timestamp(), record)))}\n`);
    }
  };
}

/** The time in ISO 8601, rendered once per millisecond, in which a busy worker finishes dozens of requests. */
function createTimestamp(clock: Clock): () => string {
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

/**
 * Whether a limit denied the request, or would have in mode Shadow, the proxy itself responded, or the response has a status
 * of 500 or more.
 */
export function isDeniedOrFailed({ reason, status, decisions, globalDecisions }: RequestRecord): boolean {
  if (reason !== undefined || status >= 500) return true;
  return [...decisions, ...globalDecisions].some(({ outcome }) => outcome === "denied" || outcome === "shadowDenied");
}

/** The fields in the order of the line: the request, its route, the outcome. `undefined` is left out of the line. */
function fieldsOf(time: string, record: RequestRecord) {
  const { usage, decisions } = record;
  return {
    level: "info",
    time,
    module: accessLogModule,
    requestId: record.requestId,
    trace_id: record.traceId,
    span_id: record.spanId,
    source: record.sourceAddress,
    method: shownText(record.method),
    scheme: record.scheme,
    authority: shownText(record.authority),
    path: shownPath(record.path),
    httpVersion: record.httpVersion,
    userAgent: record.userAgent === undefined ? undefined : shownText(record.userAgent),
    listener: record.listener,
    route: record.route,
    rule: record.rule,
    identity: record.identity === undefined ? undefined : shownText(record.identity),
    backend: record.backend,
    endpoint: record.endpoint,
    provider: record.provider,
    failovers: failoversOf(record),
    calls: record.attempts > 1 ? record.attempts : undefined,
    status: record.status,
    grpcStatus: record.grpcStatus,
    reason: record.reason,
    durationMs: roundToMicroseconds(record.durationMs),
    upstreamMs: record.upstreamMs === undefined ? undefined : roundToMicroseconds(record.upstreamMs),
    requestBytes: record.requestBytes,
    responseBytes: record.responseBytes,
    inputTokens: usage?.input,
    outputTokens: usage?.output,
    totalTokens: usage?.total,
    cachedInputTokens: usage?.cachedInputTokens,
    cacheCreationTokens: usage?.cacheCreationTokens,
    reasoningTokens: usage?.reasoningTokens,
    cost: usage?.cost === undefined ? undefined : unitsOfMoney(usage.cost),
    currency: usage?.currency,
    clientModel: clientModelOf(record),
    requestModel: record.requestModel === undefined ? undefined : shownText(record.requestModel),
    model: usage?.model === undefined ? undefined : shownText(usage.model),
    usageEstimated: usage?.estimated === true ? true : undefined,
    usageUnread: record.usageUnread,
    deniedBy: entriesWith("denied", decisions),
    shadowDeniedBy: entriesWith("shadowDenied", decisions),
    globalLimits: globalOutcomes(record.globalDecisions),
    msg: "request",
  };
}

/** Absent where the backend gets the same name. */
function clientModelOf({ clientModel, requestModel }: RequestRecord): string | undefined {
  return clientModel === undefined || clientModel === requestModel ? undefined : shownText(clientModel);
}

/** `provider: cause`, as in `Backend/default/openai: status 429`; absent when the request has not moved. */
function failoversOf({ failovers }: RequestRecord): string[] | undefined {
  return failovers.length === 0 ? undefined : failovers.map(({ provider, cause }) => `${provider}: ${cause}`);
}

/** Returns the local entries with an outcome, as in `default/chat#0 HTTPRoute/default/chat`; undefined for none. */
export function entriesWith(
  outcome: LimitDecision["outcome"],
  decisions: readonly LimitDecision[],
): string[] | undefined {
  let entries: string[] | undefined;
  for (const { limit, outcome: found } of decisions) {
    if (found !== outcome) continue;
    entries ??= [];
    entries.push(`${limit.policy}#${limit.name ?? limit.entry} ${limit.target}`);
  }
  return entries;
}

/**
 * Returns the decisions of global limits, as in `default/chat HTTPRoute/default/chat: denied by service`; undefined for
 * none.
 */
export function globalOutcomes(decisions: readonly GlobalDecision[]): string[] | undefined {
  if (decisions.length === 0) return undefined;
  return decisions.map(({ limit, outcome, by }) => `${limit.policy} ${limit.target}: ${outcome} by ${by}`);
}

function roundToMicroseconds(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
