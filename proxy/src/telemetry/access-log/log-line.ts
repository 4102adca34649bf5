/**
 * The fields of a line of the access log. A path is logged without its query, since a query may hold a key. Headers
 * other than the user agent are not logged.
 */
import { unitsOfMoney } from "@gatewayproxy/runtime/money";
import { type LogFieldName, type LogFields, logFieldKinds } from "../../cel/log-fields.ts";
import type { GlobalDecision } from "../../ir/global-limit.ts";
import type { LimitDecision } from "../../ir/limit.ts";
import type { RequestRecord } from "../request-record.ts";
import type { StreamRecord } from "../stream-record.ts";
import { shownPath, shownText } from "../shown-text.ts";

/** The module name for log filters; the level of its lines is `info`. */
export const accessLogModule = "proxy::access";

/** The fields of a line of JSON: those of the request between those of each line. */
export type LogLine = { readonly level: "info"; readonly module: string; readonly msg: string } & LogFields;

/**
 * Returns the fields in the order of the line: the request, its route, the outcome. `undefined` is left out of the
 * line.
 */
export function lineOf(time: string, record: RequestRecord): LogLine {
  const { usage, decisions } = record;
  return {
    level: "info",
    time,
    module: accessLogModule,
    requestId: record.requestId,
    trace_id: record.traceId,
    span_id: record.spanId,
    source: record.sourceAddress,
    protocol: undefined,
    serverName: undefined,
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

/** Returns the fields of a relayed connection or session; those of requests have no value. */
export function streamLineOf(time: string, record: StreamRecord): LogLine {
  const { serverName, connectMs, attempts, decisions } = record;
  return {
    level: "info",
    time,
    module: accessLogModule,
    ...noFields,
    source: record.sourceAddress,
    protocol: record.protocol,
    serverName: serverName === undefined ? undefined : shownText(serverName),
    listener: record.listener,
    route: record.route,
    rule: record.rule,
    backend: record.backend,
    endpoint: record.endpoint,
    calls: attempts > 1 ? attempts : undefined,
    reason: record.reason,
    durationMs: roundToMicroseconds(record.durationMs),
    upstreamMs: connectMs === undefined ? undefined : roundToMicroseconds(connectMs),
    requestBytes: record.receivedBytes,
    responseBytes: record.sentBytes,
    deniedBy: entriesWith("denied", decisions),
    shadowDeniedBy: entriesWith("shadowDenied", decisions),
    msg: record.protocol === "UDP" ? "session" : "connection",
  };
}

const noFields = Object.fromEntries(
  Object.keys(logFieldKinds).flatMap((name) => (name === "time" ? [] : [[name, undefined]])),
) as { readonly [Name in Exclude<LogFieldName, "time">]: undefined };

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
