/** Records of requests and limits for tests; what a test does not name has a plain default. */
import type { LocalLimit } from "../../ir/limit.ts";
import type { ViewedRequest } from "../access-log/ended-request.ts";
import type { RequestRecord } from "../request-record.ts";

/** A GET of `/items` with a 200 response from the backend. */
export function recordOf(record: Partial<RequestRecord>): RequestRecord {
  return {
    requestId: "id-1",
    traceId: undefined,
    spanId: undefined,
    isExported: false,
    startMs: 0,
    durationMs: 12,
    httpVersion: "1.1",
    method: "GET",
    scheme: "http",
    authority: "shop.example.com",
    path: "/items",
    sourceAddress: "192.0.2.7",
    userAgent: undefined,
    listener: "default/gateway/http",
    route: "default/shop",
    rule: "default/shop/0",
    identity: undefined,
    authentication: undefined,
    backend: "Service/default/shop:80",
    clientModel: undefined,
    requestModel: undefined,
    isListedModel: false,
    provider: undefined,
    providerCall: undefined,
    failovers: [],
    endpoint: "10.0.0.1:8080",
    attempts: 1,
    status: 200,
    grpcStatus: undefined,
    reason: undefined,
    requestBytes: 0,
    missingIdBytes: 0,
    responseBytes: 5,
    upstreamMs: 10,
    usage: undefined,
    isUnpriced: false,
    usageUnread: undefined,
    decisions: [],
    globalDecisions: [],
    ...record,
  };
}

/**
 * What expressions read of the request of a record, and of its response.
 *
 * @param rawHeaders names and values in turn.
 */
export function viewedOf(
  record: RequestRecord,
  rawHeaders: readonly string[] = [],
  responseHeaders: readonly string[] = [],
): ViewedRequest {
  const { method, path, authority, scheme, sourceAddress, route = "" } = record;
  const request = { method, path, authority, scheme, sourceAddress };
  return { view: { ...request, rawHeaders, route, gateway: "default/gateway" }, llm: undefined, responseHeaders };
}

/** Ten requests a minute on the route `default/shop`. */
export function limitOf(limit: Partial<LocalLimit>): LocalLimit {
  return {
    counter: "default/limits HTTPRoute/default/shop requests 10/Minutes",
    policy: "default/limits",
    entry: 0,
    target: "HTTPRoute/default/shop",
    counts: "requests",
    amount: 10,
    burst: 0,
    unit: "Minutes",
    mode: "Enforce",
    ...limit,
  };
}
