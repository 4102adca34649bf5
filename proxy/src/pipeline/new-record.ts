/** Creates the record of a request when its head has arrived. Later steps fill in their results. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { requestIdOf } from "../filters/forwarded.ts";
import { isName } from "../filters/hop-by-hop.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { Connection } from "../listen/connection.ts";
import type { RequestHead } from "../listen/request-head.ts";

/** The sources of start times and request ids. */
export interface RecordServices {
  /** The wall clock gives `startMs`. */
  readonly clock: Clock;
  /** Returns a new id, for requests without a valid `x-request-id`. */
  readonly createRequestId: () => string;
}

/** Returns the record of a request after its head has arrived. @param httpVersion as `RequestRecord.httpVersion`. */
export function newRecord(
  { clock, createRequestId }: RecordServices,
  head: RequestHead,
  connection: Connection,
  httpVersion: string,
): RequestRecord {
  return {
    requestId: requestIdOf(head.rawHeaders, createRequestId),
    startMs: clock.nowMs(),
    durationMs: 0,
    httpVersion,
    method: head.method,
    scheme: head.scheme,
    authority: head.authority,
    path: head.path,
    sourceAddress: connection.sourceAddress,
    userAgent: fieldOf(head.rawHeaders, "user-agent"),
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

/** Returns the first value of a field. @param name in lower case. */
function fieldOf(rawHeaders: readonly string[], name: string): string | undefined {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const candidate = rawHeaders[i];
    if (candidate?.length === name.length && isName(candidate, name)) return rawHeaders[i + 1];
  }
  return undefined;
}

const noDecisions: RequestRecord["decisions"] = [];
const noGlobalDecisions: RequestRecord["globalDecisions"] = [];
