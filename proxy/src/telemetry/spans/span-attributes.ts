/**
 * The attributes of spans, by the semantic conventions of OpenTelemetry for HTTP and RPC (stable), and our own below
 * `gatewayproxy.`. Texts of clients are redacted and cut as in the access log; queries and bodies are not shown.
 */
import { knownMethod } from "@gatewayproxy/runtime/known-methods";
import type { SpanAttributes } from "@gatewayproxy/runtime/span";
import { entriesWith, globalOutcomes } from "../access-log/log-line.ts";
import type { RequestRecord } from "../request-record.ts";
import { shownPath, shownText } from "../shown-text.ts";
import type { AttemptSpan, RequestSpan, ServiceCallSpan } from "./request-span.ts";

/** Whether the proxy or the backend failed. A denied request and a client that left are no errors of the server. */
export function isRequestError({ status, reason }: RequestRecord): boolean {
  if (status >= 500) return true;
  return status < 400 && reason !== undefined && reason !== "ClientDisconnect";
}

/** The attributes of the span of a request. @param worker its number, from 1. */
export function requestAttributes(record: RequestRecord, { pathMatch }: RequestSpan, worker: number): SpanAttributes {
  const { host, port } = hostAndPort(record.authority);
  const method = knownMethod(record.method);
  // One literal: each request has this object.
  return {
    "http.request.method": method ?? "_OTHER",
    "http.request.method_original": method === undefined ? shownText(record.method) : undefined,
    "url.scheme": record.scheme,
    "url.path": shownPath(record.path),
    "server.address": shownText(host),
    "server.port": port,
    "client.address": record.sourceAddress,
    "network.protocol.version": record.httpVersion,
    "user_agent.original": record.userAgent === undefined ? undefined : shownText(record.userAgent),
    "http.route": pathMatch,
    "http.response.status_code": record.status === 0 ? undefined : record.status,
    "http.request.body.size": record.requestBytes === 0 ? undefined : record.requestBytes,
    "http.response.body.size": record.responseBytes,
    "error.type": isRequestError(record) ? (record.reason ?? String(record.status)) : undefined,
    "thread.id": worker,
    "gatewayproxy.request_id": record.requestId,
    "gatewayproxy.listener": record.listener,
    "gatewayproxy.route": record.route,
    "gatewayproxy.rule": record.rule,
    "gatewayproxy.identity": record.identity === undefined ? undefined : shownText(record.identity),
    "gatewayproxy.authentication": record.authentication,
    "gatewayproxy.attempts": record.attempts > 1 ? record.attempts : undefined,
    "gatewayproxy.reason": record.reason,
    "gatewayproxy.grpc_status": record.grpcStatus,
    "gatewayproxy.limits.decision": decisionOf(record),
    "gatewayproxy.limits.denied_by": entriesWith("denied", record.decisions),
    "gatewayproxy.limits.shadow_denied_by": entriesWith("shadowDenied", record.decisions),
    "gatewayproxy.limits.global": globalOutcomes(record.globalDecisions),
  };
}

/** The decision of all limits together; undefined if none applies. */
function decisionOf({ decisions, globalDecisions }: RequestRecord): string | undefined {
  if (decisions.length + globalDecisions.length === 0) return undefined;
  const outcomes = [...decisions, ...globalDecisions].map(({ outcome }) => outcome);
  if (outcomes.includes("denied")) return "denied";
  if (outcomes.includes("shadowDenied")) return "shadow_denied";
  return outcomes.includes("allowed") ? "allowed" : undefined;
}

/** Whether an attempt has failed; for a client, a status of 400 or more is an error (HTTP conventions, "Status"). */
export function isAttemptError({ status, failure }: AttemptSpan): boolean {
  return failure !== undefined || status >= 400;
}

/** The attributes of an attempt. @param resends the number of attempts before. */
export function attemptAttributes(attempt: AttemptSpan, resends: number): SpanAttributes {
  const { host, port, scheme, path, status, failure } = attempt;
  const authority = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  const method = knownMethod(attempt.method);
  return {
    "http.request.method": method ?? "_OTHER",
    "http.request.method_original": method === undefined ? shownText(attempt.method) : undefined,
    "url.full": `${scheme}://${authority}${shownPath(path)}`,
    "server.address": host,
    "server.port": port,
    "http.response.status_code": status === 0 ? undefined : status,
    "http.request.resend_count": resends === 0 ? undefined : resends,
    "error.type": failure ?? (status >= 400 ? String(status) : undefined),
    "gatewayproxy.backend": attempt.backend,
  };
}

/** The attributes of a copy for a mirror. */
export function copyAttributes(copy: AttemptSpan): SpanAttributes {
  return { ...attemptAttributes(copy, 0), "gatewayproxy.mirror": true };
}

/** The codes of gRPC for the failures of calls, as far as they say which one it was. */
const grpcCodes: Readonly<Record<string, string>> = {
  timeout: "DEADLINE_EXCEEDED",
  unavailable: "UNAVAILABLE",
  failed: "INTERNAL",
  exhausted: "RESOURCE_EXHAUSTED",
  garbage: "INTERNAL",
};

/** The attributes of a call of a rate limit service. They do not contain the values of descriptors. */
export function serviceCallAttributes(call: ServiceCallSpan): SpanAttributes {
  return {
    "rpc.system.name": "grpc",
    "rpc.method": call.method,
    "rpc.response.status_code": call.failure === undefined ? "OK" : (grpcCodes[call.failure] ?? "UNKNOWN"),
    ...serverOf(call.service),
    "error.type": call.failure,
    "gatewayproxy.policy": call.policy,
    "gatewayproxy.ratelimit.domain": call.domain,
    "gatewayproxy.ratelimit.descriptors": call.descriptors,
    "gatewayproxy.ratelimit.code": call.code,
  };
}

/** The group of servers behind a key such as `Service/default/ratelimit:8081`. */
function serverOf(service: string): SpanAttributes {
  const [, namespace = "", name = service] = service.split("/");
  const { host, port } = hostAndPort(name);
  return { "server.address": namespace === "" ? host : `${host}.${namespace}`, "server.port": port };
}

function hostAndPort(authority: string): { readonly host: string; readonly port: number | undefined } {
  const [, bracketed, plain = authority, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(authority) ?? [];
  return { host: bracketed ?? plain, port: port === undefined ? undefined : Number(port) };
}
