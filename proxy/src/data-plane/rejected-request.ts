/** Records requests with rejected heads in the access log, the metrics and traces. */
import { schemeOf } from "../listen/connection.ts";
import type { RejectedRequest } from "../listen/downstream.ts";
import type { RequestHead } from "../listen/request-head.ts";
import type { ExchangeServices } from "../pipeline/exchange.ts";
import { newRecord } from "../pipeline/new-record.ts";
import { requestFinished, requestStarted, severityOfStatus } from "../pipeline/trace-messages.ts";
import type { ViewedRequest } from "../telemetry/access-log/ended-request.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";

/** Records a rejected request as started and finished, with the reason `BadRequest` and the status of its response. */
export function recordRejected(services: ExchangeServices, request: RejectedRequest): void {
  const { connection, method, target, rawHeaders, fault } = request;
  const head = { method, path: target, authority: "", scheme: schemeOf(connection), rawHeaders };
  const span = services.tracing?.begin(rawHeaders, services.clock.monotonicMs());
  const record: RequestRecord = {
    ...newRecord(services, head, connection, request.httpVersion, span),
    status: fault.status,
    reason: "BadRequest",
  };
  services.started();
  if (services.tracer.isWatching) traceRejected(services, record, head);
  if (span !== undefined) record.isExported = services.tracing?.isExported(span, record) === true;
  services.finished(record, viewOf(services, record));
  if (span !== undefined) services.tracing?.end(span, record);
}

/** Expressions see no headers of a head that was not accepted: its fields may be ambiguous. */
function viewOf({ ipv6PrefixLength }: ExchangeServices, record: RequestRecord): ViewedRequest {
  const { method, path, authority, scheme, sourceAddress } = record;
  const request = { method, path, authority, scheme, sourceAddress, ipv6PrefixLength };
  return { view: { ...request, rawHeaders: [], route: "", gateway: "" }, llm: undefined, responseHeaders: [] };
}

function traceRejected({ tracer, clock }: ExchangeServices, record: RequestRecord, head: RequestHead): void {
  const trace = tracer.claim(record, () => undefined, clock.monotonicMs());
  if (trace === undefined) return;
  trace.emit(requestStarted(record, head, tracer.worker));
  trace.emit(requestFinished(record), severityOfStatus(record.status, record.reason));
  trace.end();
}
