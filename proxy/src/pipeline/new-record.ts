/** Creates the record of a request when its head has arrived. Later steps fill in their results. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { parseTraceparent, traceparentHeader } from "@gatewayproxy/runtime/trace-context";
import { requestIdOf } from "../filters/forwarded.ts";
import { isName } from "../filters/hop-by-hop.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestSpan } from "../telemetry/spans/request-span.ts";
import type { Connection } from "../listen/connection.ts";
import type { RequestHead } from "../listen/request-head.ts";

/** The sources of start times and request ids. */
export interface RecordServices {
  /** The wall clock gives `startMs`. */
  readonly clock: Clock;
  /** Returns a new id, for requests without a valid `x-request-id`. */
  readonly createRequestId: () => string;
}

/**
 * Returns the record of a request after its head has arrived.
 *
 * @param httpVersion as `RequestRecord.httpVersion`.
 * @param span of the request; undefined if the proxy does not trace.
 */
export function newRecord(
  { clock, createRequestId }: RecordServices,
  head: RequestHead,
  connection: Connection,
  httpVersion: string,
  span?: RequestSpan,
): RequestRecord {
  const { userAgent, traceparent } = shownFields(head.rawHeaders);
  const context = span ?? parseTraceparent(traceparent);
  return {
    requestId: requestIdOf(head.rawHeaders, createRequestId),
    traceId: context?.traceId,
    spanId: context?.spanId,
    isExported: false,
    startMs: clock.nowMs(),
    durationMs: 0,
    httpVersion,
    method: head.method,
    scheme: head.scheme,
    authority: head.authority,
    path: head.path,
    sourceAddress: connection.sourceAddress,
    userAgent,
    listener: undefined,
    route: undefined,
    rule: undefined,
    identity: undefined,
    authentication: undefined,
    backend: undefined,
    clientModel: undefined,
    requestModel: undefined,
    isListedModel: false,
    provider: undefined,
    providerCall: undefined,
    failovers: [],
    endpoint: undefined,
    attempts: 0,
    status: 0,
    grpcStatus: undefined,
    reason: undefined,
    requestBytes: 0,
    missingIdBytes: 0,
    responseBytes: 0,
    upstreamMs: undefined,
    usage: undefined,
    isUnpriced: false,
    usageUnread: undefined,
    decisions: noDecisions,
    globalDecisions: noGlobalDecisions,
  };
}

interface ShownFields {
  readonly userAgent: string | undefined;
  readonly traceparent: string | undefined;
}

/** Returns the first value of each field that the record shows, in one pass over the fields. */
function shownFields(rawHeaders: readonly string[]): ShownFields {
  let userAgent: string | undefined;
  let traceparent: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (name.length === 10 && isName(name, "user-agent")) userAgent ??= rawHeaders[i + 1];
    else if (name.length === 11 && isName(name, traceparentHeader)) traceparent ??= rawHeaders[i + 1];
  }
  return { userAgent, traceparent };
}

const noDecisions: RequestRecord["decisions"] = [];
const noGlobalDecisions: RequestRecord["globalDecisions"] = [];
