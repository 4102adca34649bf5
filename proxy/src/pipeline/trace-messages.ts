/** The messages of a traced request. Few requests are traced, so this module prefers clarity to speed. */
import type { TraceMessage } from "@gatewayproxy/admin-api/trace-event";
import type { Authenticator, AuthenticationResult } from "../authentication/authenticator.ts";
import type { GlobalDecision } from "../ir/global-limit.ts";
import { describeNotApplied } from "../policy/ratelimit/global/not-applied.ts";
import { isChargedLater, type LimitDecision } from "../ir/limit.ts";
import type { Match } from "../ir/match.ts";
import type { Listener } from "../ir/snapshot.ts";
import type { EntryFigures } from "../policy/ratelimit/local-limiter.ts";
import type { RouteMatch } from "../routing/compile-routes.ts";
import {
  isSecretExpression,
  redactHeaders,
  redactNamed,
  redactPath,
  redactText,
  redactValue,
} from "@gatewayproxy/runtime/redaction";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { Severity } from "../telemetry/trace/request-trace.ts";
import type { CompiledRule } from "./compiled-rule.ts";
import type { RequestHead } from "../listen/request-head.ts";

/** Returns the message with the head of the request, with secrets redacted. `worker` counts from 1. */
export function requestStarted(record: RequestRecord, { rawHeaders }: RequestHead, worker: number): TraceMessage {
  const { requestId, traceId, spanId, method, scheme, authority, path, httpVersion, sourceAddress } = record;
  return {
    type: "requestStarted",
    requestId,
    ...(traceId !== undefined && { traceId }),
    ...(spanId !== undefined && { spanId }),
    worker,
    method: redactText(method),
    scheme,
    authority: redactText(authority),
    path: redactPath(path),
    httpVersion,
    sourceAddress,
    headers: redactHeaders(rawHeaders),
  };
}

/**
 * The listener, the route and the match that were found; undefined `match` or `listener` means none. `passedOver.rules`
 * are rules that do not match, the best fitting first, and `more` is the number of further ones.
 *
 * @param model for which the rule was searched; undefined if it names none, or the search did not depend on it.
 */
export function routeSelection(
  match: RouteMatch<{ readonly rule: CompiledRule }> | undefined,
  listener: Listener | undefined,
  passedOver: { readonly rules: readonly string[]; readonly more: number },
  model: string | undefined,
): Extract<TraceMessage, { type: "routeSelection" }> {
  const { rules, more } = passedOver;
  return {
    type: "routeSelection",
    ...(listener !== undefined && { listener: listener.key }),
    ...(match !== undefined && {
      route: match.compiled.rule.route,
      rule: match.compiled.rule.key,
      match: describeMatch(match.match),
    }),
    ...(model !== undefined && { model: redactText(model) }),
    evaluatedRoutes: (listener?.routes ?? []).map(({ key }) => key),
    ...(rules.length > 0 && { passedOver: [...rules] }),
    ...(more > 0 && { passedOverMore: more }),
  };
}

const pathKinds = { Exact: "path", PathPrefix: "path prefix", RegularExpression: "path matching" } as const;

/** Returns a match as text: `path prefix /v1, method POST, header x-team = blue`. */
function describeMatch({ path, method, headers, query }: Match): string {
  const value = (kind: "header" | "query", { name, kind: how, value: wanted }: Match["headers"][number]): string =>
    `${kind} ${name} ${how === "Exact" ? "=" : "matching"} ${redactNamed(name, wanted)}`;
  return [
    `${pathKinds[path.kind]} ${redactPath(path.value)}`,
    ...(method === undefined ? [] : [`method ${method}`]),
    ...headers.map((header) => value("header", header)),
    ...query.map((parameter) => value("query", parameter)),
  ].join(", ");
}

/** Returns the message with the policies of the rule, by policy and target, and the number of their local entries. */
export function policySelection({ limits, globalLimits }: CompiledRule): TraceMessage {
  const local = Map.groupBy(limits.limits, ({ policy, target }) => `${policy}\n${target}`);
  const global = Map.groupBy(globalLimits?.limits ?? [], ({ policy, target }) => `${policy}\n${target}`);
  const keys = new Set([...local.keys(), ...global.keys()]);
  return {
    type: "policySelection",
    policies: Array.from(keys, (key) => {
      const [policy = "", target = ""] = key.split("\n");
      return { policy, target, local: local.get(key)?.length ?? 0, global: global.has(key) };
    }),
  };
}

/** Returns the message with the result of authentication. It has the identity and never the credential. */
export function authenticationResult({ policies }: Authenticator, result: AuthenticationResult): TraceMessage {
  return {
    type: "authentication",
    policies: policies.map(({ policy, target, mode }) => ({ policy, target, mode })),
    ...(result.kind === "accepted"
      ? { result: result.name === undefined ? "anonymous" : "accepted" }
      : { result: result.fault, rejectedBy: result.policy }),
    ...(result.kind === "accepted" && result.name !== undefined && { identity: redactText(result.name) }),
  };
}

/**
 * Returns the message with the decision of one local limit.
 *
 * @param isCounted whether all local entries have allowed the request, so that those that count neither tokens nor
 * spend have counted it.
 */
export function localPolicy(figures: EntryFigures, isCounted: boolean): TraceMessage {
  const { limit, key, capacity, used, units, held, outcome } = figures;
  const cost = isCounted && outcome === "allowed" ? (isChargedLater(limit.counts) ? held : units) : 0;
  const { policy, target, mode, entry, name, counts, when } = limit;
  return {
    type: "policy",
    kind: "localRateLimit",
    policy,
    target,
    mode,
    decision: outcome,
    entry,
    ...(name !== undefined && { name }),
    ...(outcome === "notApplied" && when !== undefined && { when }),
    counts,
    ...(key !== undefined && { key: redactValue(key, isSecretExpression(limit.key ?? "")) }),
    limit: capacity,
    before: used - cost,
    cost,
    after: used,
  };
}

/** The decision of a rate limit service, or of the fallback, about one policy. */
export function globalPolicy({ limit, outcome, by, notApplied }: GlobalDecision): TraceMessage {
  const { policy, target, mode, service } = limit;
  return {
    ...{ type: "policy", kind: "globalRateLimit", policy, target, mode, decision: outcome, by, service },
    ...(notApplied.length > 0 && { notApplied: notApplied.map(describeNotApplied) }),
  };
}

/** Returns the severity of a decision: `success`, or `warn` if the limit denies the request or would deny it. */
export function severityOf(decision: LimitDecision["outcome"]): Severity {
  return decision === "allowed" || decision === "notApplied" ? "success" : "warn";
}

/** Returns the message with the usage of the response, or why it was not read; undefined if there is none to read. */
export function llmUsage({ usage, usageUnread }: RequestRecord): TraceMessage | undefined {
  if (usage === undefined) return usageUnread && { type: "llmUsage", uncounted: usageUnread };
  const { input, output, total, model, estimated, ...details } = usage;
  return {
    type: "llmUsage",
    ...(input !== undefined && { inputTokens: input }),
    ...(output !== undefined && { outputTokens: output }),
    totalTokens: total,
    ...details,
    ...(model !== undefined && { model: redactText(model) }),
    estimated,
  };
}

/**
 * Returns the message for the end of the request: status (0 if no response started), attempts and body sizes in bytes.
 */
export function requestFinished({
  status,
  reason,
  attempts,
  requestBytes,
  responseBytes,
}: RequestRecord): TraceMessage {
  const cause = reason === undefined ? {} : { reason };
  return { type: "requestFinished", status, ...cause, calls: attempts, requestBytes, responseBytes };
}

/** Returns the severity of a response for operators. @param status 0 if no response started. */
export function severityOfStatus(status: number, reason?: string): Severity {
  if (status === 0 || status >= 500) return "error";
  return status >= 400 || reason !== undefined ? "warn" : "success";
}
