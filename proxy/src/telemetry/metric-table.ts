/**
 * Every metric of the proxy, declared once. `docs/metrics.md` is generated from this table, and a test compares them.
 */
import type { MetricTable } from "@gatewayproxy/runtime/metrics";
import { genAiMetrics, latestGenAiMetrics } from "./gen-ai-table.ts";

/** Seconds; the upper ones are for LLM responses, which take minutes. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Of all threads. */
const exportedLines = {
  name: "gateway_proxy_application_log_records_total",
  type: "counter",
  help: "Lines of the log, other than those of the access log, that are exported by OTLP: `exported`, `failed` because the collector did not take them, or `dropped` because the queue was full. Without the export there is no series.",
  labels: ["outcome"],
} as const;

/** Metrics of requests, counted by each worker. */
export const requestMetrics = {
  requests: {
    name: "gateway_proxy_http_requests_total",
    type: "counter",
    help: "Requests that ended. `code` is 0 when the client disconnected before a response. `reason` is that of a local reply or a failure, and is empty when the response of the backend was complete.",
    labels: ["listener", "route", "backend", "method", "code", "reason"],
  },
  requestDuration: {
    name: "gateway_proxy_http_request_duration_seconds",
    type: "histogram",
    help: "From the complete head of a request to the last byte of its response.",
    labels: ["listener", "route"],
    // By route it would be most of the lines of a scrape. The admin server shows durations by route.
    summedLabels: ["route"],
    buckets: durationBuckets,
  },
  spans: {
    name: "gateway_proxy_trace_spans_total",
    type: "counter",
    help: "Spans of requests that are traced: `exported`, `failed` because the collector did not take them, or `dropped` because the queue was full. Without traces there is no series.",
    labels: ["outcome"],
  },
  activeRequests: {
    name: "gateway_proxy_http_requests_active",
    type: "gauge",
    help: "Requests in progress.",
    labels: ["bind"],
  },
  connections: {
    name: "gateway_proxy_downstream_connections_total",
    type: "counter",
    help: "Connections that clients opened.",
    labels: ["bind"],
  },
  activeConnections: {
    name: "gateway_proxy_downstream_connections_active",
    type: "gauge",
    help: "Open connections of clients.",
    labels: ["bind"],
  },
  shedConnections: {
    name: "gateway_proxy_downstream_connections_shed_total",
    type: "counter",
    help: "Connections of clients that were closed because `--max-client-memory` or their part of the limit of open files was used up: `idle` ones, the `newest` of an address that had no idle one, or, as `head`, those with an incomplete head, or bytes of requests that wait. `timeout`: their HTTP/2 header block or HTTP/1 trailers did not end within 60 s. `stream`: relayed connections whose bytes waited to be sent.",
    labels: ["reason"],
  },
  streams: {
    name: "gateway_proxy_stream_connections_total",
    type: "counter",
    help: "Connections of TLS and TCP listeners, and sessions of UDP listeners, that ended, by the reason of their end: `ClientClosed`, `BackendClosed`, `IdleTimeout`, `RateLimited` and others (docs/gateway-api.md).",
    labels: ["listener", "route", "backend", "reason"],
  },
  activeStreams: {
    name: "gateway_proxy_stream_connections_active",
    type: "gauge",
    help: "Open connections of TLS and TCP listeners, and sessions of UDP listeners.",
    labels: ["listener"],
  },
  streamBytes: {
    name: "gateway_proxy_stream_bytes_total",
    type: "counter",
    help: "Bytes that were relayed for connections of TLS and TCP listeners and sessions of UDP listeners: `received` from clients or `sent` to them, counted every second.",
    labels: ["listener", "backend", "direction"],
  },
  droppedDatagrams: {
    name: "gateway_proxy_stream_datagrams_dropped_total",
    type: "counter",
    help: "Datagrams of UDP listeners that were dropped: the reason for which no session could begin, `BufferFull` if too many waited to be sent, `TooLarge` for one that is larger than the endpoint can get, `NoSourcePort` for a reply to port 0.",
    labels: ["listener", "reason"],
  },
  upstreamRequests: {
    name: "gateway_proxy_upstream_requests_total",
    type: "counter",
    help: "Requests sent to an endpoint. `code` is the status of its response, or `none` without one.",
    labels: ["backend", "endpoint", "code"],
  },
  upstreamDuration: {
    name: "gateway_proxy_upstream_response_seconds",
    type: "histogram",
    help: "From the start of an attempt to the head of the endpoint's response.",
    labels: ["backend"],
    buckets: durationBuckets,
  },
  upstreamConnectFailures: {
    name: "gateway_proxy_upstream_connect_failures_total",
    type: "counter",
    help: "Requests for which no connection to the endpoint could be made.",
    labels: ["backend", "endpoint"],
  },
  upstreamRetries: {
    name: "gateway_proxy_upstream_retries_total",
    type: "counter",
    help: "Attempts at a backend beyond the first of each request.",
    labels: ["backend"],
  },
  failovers: {
    name: "gateway_proxy_provider_failovers_total",
    type: "counter",
    help: "Requests that moved from a provider to the next one of its Backend. `provider` is the one that was left, and `cause` why: `status 429` or another status, or the kind of the failure: `connect`, `reset`, `timeout`, `overloaded`, `forbidden`, `no ready endpoint`; `error event` is an error as the first event of a stream.",
    labels: ["backend", "provider", "cause"],
  },
  mirroredRequests: {
    name: "gateway_proxy_mirrored_requests_total",
    type: "counter",
    help: "Mirrored copies of requests, by the backend that they copy: `sent` (with a response), `failed`, or `skipped` because the body was too long, too many requests to the backend were in progress, or copies had no more memory.",
    labels: ["backend", "outcome"],
  },
  authentications: {
    name: "gateway_proxy_authentications_total",
    type: "counter",
    help: "Results of authentication, for requests to which a policy with `authentication` applies: `accepted`, `anonymous` (mode Optional, without a valid credential), or why a request was rejected: `missing`, `unknownApiKey`, `malformed`, `algorithm`, `issuer`, `audience`, `expired`, `notYetValid`, `unknownKey`, `signature`, `keysUnavailable`, `overloaded`.",
    labels: ["route", "result"],
  },
  keySetFetches: {
    name: "gateway_proxy_key_set_fetches_total",
    type: "counter",
    help: "Reads of key sets (JWKS) from their URLs by a worker: `read` or `failed`.",
    labels: ["outcome"],
  },
  limitDecisions: {
    name: "gateway_proxy_limit_decisions_total",
    type: "counter",
    help: "Decisions of each entry of each policy: `allowed`, `denied`, `shadow_denied` (over the limit in mode Shadow), or `not_applied` (its `when` is false). `entry` is the name of the entry, or its index. `counts` is `requests`, `tokens`, `spend`, `concurrent` or `connections`.",
    labels: ["policy", "entry", "target", "counts", "decision"],
  },
  globalLimitDecisions: {
    name: "gateway_proxy_global_limit_decisions_total",
    type: "counter",
    help: "Decisions of global limits: `allowed`, `denied` or `shadow_denied`. `by` is what decided: the `service`, the `cache` of its denials, the `fallback` of the policy, limits `learned` from the service, the `failureMode`, or `none` where no descriptor applied.",
    labels: ["policy", "target", "decision", "by"],
  },
  modelRequests: {
    name: "gateway_proxy_llm_model_requests_total",
    type: "counter",
    help: "Requests for models that a Backend lists in `models`. `client_model` is the name that the client used, and `model` the one that the provider got.",
    labels: ["route", "backend", "client_model", "model"],
  },
  tokens: {
    name: "gateway_proxy_llm_tokens_total",
    type: "counter",
    help: "Tokens of LLM responses. `type` is `input`, `output`, or `other` for the rest of a total; `model` is the one that the response reports, or `other` beyond 100 models of the last ten minutes.",
    labels: ["route", "backend", "model", "type"],
  },
  tokenDetails: {
    name: "gateway_proxy_llm_token_details_total",
    type: "counter",
    help: "Parts of `gateway_proxy_llm_tokens_total` that providers report. `detail` is `cached_input` (input read from a cache of the provider), `cache_creation` (input written to one), or `reasoning` (a part of the output). The other labels are the same.",
    labels: ["route", "backend", "model", "detail"],
  },
  cost: {
    name: "gateway_proxy_llm_cost_micro_units_total",
    type: "counter",
    help: "What LLM responses cost by the prices of their Backends, in millionths of the currency. `currency` is empty if the Backend does not name it. `model` is as for `gateway_proxy_llm_tokens_total`.",
    labels: ["route", "backend", "model", "currency"],
  },
  unpricedUsage: {
    name: "gateway_proxy_llm_usage_unpriced_total",
    type: "counter",
    help: "LLM responses of Backends with prices that have none for the model, so that they cost nothing.",
    labels: ["route", "backend"],
  },
  estimatedUsage: {
    name: "gateway_proxy_llm_usage_estimated_total",
    type: "counter",
    help: "LLM responses whose tokens were estimated, in full or in part, because the backend did not report them.",
    labels: ["route", "backend"],
  },
  uncountedUsage: {
    name: "gateway_proxy_llm_usage_uncounted_total",
    type: "counter",
    help: "Responses under a token limit that added nothing to it: `absent` (nothing was generated), `stored` (copies of responses that were charged), `malformed`, `undecodable` or `errorStatus`.",
    labels: ["route", "backend", "reason"],
  },
  faults: {
    name: "gateway_proxy_faults_total",
    type: "counter",
    help: "Internal errors that the proxy survived, by what each of them ended: a `request`, a `connection` of a client, the work of a `timer`, calls of a rate limit service (`globalLimit`), or a background `task`. Please report them; the log has the stacks of up to 5 a second and worker.",
    labels: ["place"],
  },
  droppedLogLines: {
    name: "gateway_proxy_access_log_lines_dropped_total",
    type: "counter",
    help: "Lines of the access log that were dropped because the output was not read fast enough, or because the file could not be written.",
    labels: [],
  },
  logRecords: {
    name: "gateway_proxy_access_log_records_total",
    type: "counter",
    help: "Records of the access log that are exported by OTLP: `exported`, `failed` because the collector did not take them, or `dropped` because the queue was full. Without the export there is no series.",
    labels: ["outcome"],
  },
  exportedLines,
} as const satisfies MetricTable;

/** Metrics of rate limit services, counted by each worker. `service` is as in a policy. */
export const globalLimitMetrics = {
  calls: {
    name: "gateway_proxy_global_limit_calls_total",
    type: "counter",
    help: "Calls of a rate limit service, including charges: `ok`, `over_limit`, or the reason for which there was no decision: `timeout`, `unavailable`, `failed`, `rejected`, `exhausted`, `garbage`, `unknown`.",
    labels: ["service", "outcome"],
  },
  callDuration: {
    name: "gateway_proxy_global_limit_call_duration_seconds",
    type: "histogram",
    help: "Duration of calls of a rate limit service, successful or not.",
    labels: ["service"],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
  },
  openBreakers: {
    name: "gateway_proxy_global_limit_breakers_open",
    type: "gauge",
    help: "Workers that do not call a rate limit service because their circuit breaker is open.",
    labels: ["service"],
  },
  breakerChanges: {
    name: "gateway_proxy_global_limit_breaker_changes_total",
    type: "counter",
    help: "Changes of a worker's circuit breaker to `open` or `closed`.",
    labels: ["service", "state"],
  },
  bufferedCharges: {
    name: "gateway_proxy_global_limit_charges_buffered",
    type: "gauge",
    help: "Charges of tokens that are buffered until their rate limit service is available again.",
    labels: ["service"],
  },
  droppedCharges: {
    name: "gateway_proxy_global_limit_charges_dropped_total",
    type: "counter",
    help: "Charges of tokens that never reached their rate limit service: too many were buffered (`overflow`), one was buffered too long (`expired`), the service rejected it (`rejected`) or failed to count it five times (`failed`), a refund of an estimate failed once (`uncertain`), or no policy uses the service any more (`retired`).",
    labels: ["service", "reason"],
  },
} as const satisfies MetricTable;

/** Metrics of the process, counted by the main thread. */
export const processMetrics = {
  exportedLines,
  configGeneration: {
    name: "gateway_proxy_config_generation",
    type: "gauge",
    help: "Generation of the configuration in use; 0 before the first.",
    labels: [],
  },
  configRejected: {
    name: "gateway_proxy_config_rejected_total",
    type: "counter",
    help: "Sets of resources that were read with a new problem. An invalid resource is not served, or is served in its last valid version; the others are served.",
    labels: [],
  },
  configReloaded: {
    name: "gateway_proxy_config_last_reload_success_timestamp_seconds",
    type: "gauge",
    help: "Time at which resources were last read without a problem, in seconds since the Unix epoch.",
    labels: [],
  },
  failingWatches: {
    name: "gateway_proxy_config_watches_failing",
    type: "gauge",
    help: "Watches of the Kubernetes API whose last request failed. While it is above 0, the configuration may be out of date. Always 0 in file mode.",
    labels: [],
  },
  heldBodyBytes: {
    name: "gateway_proxy_request_body_memory_bytes",
    type: "gauge",
    help: "Memory of `--max-body-memory` that request bodies use.",
    labels: [],
  },
  providerOutOfQuota: {
    name: "gateway_proxy_provider_out_of_quota",
    type: "gauge",
    help: "Whether a provider of a Backend with several is out of quota, and gets no requests until its reset: 1 or 0.",
    labels: ["provider"],
  },
  providerFailing: {
    name: "gateway_proxy_provider_failing",
    type: "gauge",
    help: "Whether a provider of a Backend with several fails, and gets no requests while another one is available: 1 or 0.",
    labels: ["provider"],
  },
  limitUsed: {
    name: "gateway_proxy_limit_used_units",
    type: "gauge",
    help: "Units in open windows of an entry of a policy, over all values of its `key`: requests, tokens, requests in progress, open connections, or millionths of the currency. Absent while no window is open. The labels are those of `gateway_proxy_limit_decisions_total`.",
    labels: ["policy", "entry", "target", "counts"],
  },
  limitRemaining: {
    name: "gateway_proxy_limit_remaining_ratio",
    type: "gauge",
    help: "What the value of the `key` of an entry with least remaining has left, as a part of the limit: from 1 to 0. Where an expression gives the limit, of the one without it.",
    labels: ["policy", "entry", "target", "counts"],
  },
  evictedCounters: {
    name: "gateway_proxy_limit_counters_evicted_total",
    type: "counter",
    help: "Counters of limits with a `key` that were evicted for a newer key because the table was full.",
    labels: [],
  },
  resetCounters: {
    name: "gateway_proxy_limit_counters_reset_total",
    type: "counter",
    help: "Counters of limits that an operator has reset by `POST /limits/reset`.",
    labels: [],
  },
  stateSaved: {
    name: "gateway_proxy_state_last_save_timestamp_seconds",
    type: "gauge",
    help: "Time up to which the file of `--state-dir` has everything that was counted, in seconds since the Unix epoch.",
    labels: [],
  },
  stateBytes: {
    name: "gateway_proxy_state_bytes",
    type: "gauge",
    help: "Size of that file.",
    labels: [],
  },
  stateFailures: {
    name: "gateway_proxy_state_save_failures_total",
    type: "counter",
    help: "Attempts to save counters in `--state-dir` that failed. They are repeated.",
    labels: [],
  },
  metricExports: {
    name: "gateway_proxy_metric_exports_total",
    type: "counter",
    help: "Exports of all metrics by OTLP: `exported`, or `failed` because the collector did not take them; then the next export has them. Without an export there is no series.",
    labels: ["outcome"],
  },
  workers: {
    name: "gateway_proxy_workers",
    type: "gauge",
    help: "Worker threads that serve requests.",
    labels: [],
  },
  workerRestarts: {
    name: "gateway_proxy_worker_restarts_total",
    type: "counter",
    help: "Worker threads that ended unexpectedly and were started again.",
    labels: [],
  },
} as const satisfies MetricTable;

/**
 * All metrics but those of LLM providers by the semantic conventions, in the order of the docs and of the exposition.
 */
export const ownMetrics: MetricTable = { ...requestMetrics, ...globalLimitMetrics, ...processMetrics };

/**
 * Returns all metrics.
 *
 * @param isLatestGenAi whether those of LLM providers have the names of the latest conventions.
 */
export function metricTableOf(isLatestGenAi: boolean): MetricTable {
  return { ...ownMetrics, ...(isLatestGenAi ? latestGenAiMetrics : genAiMetrics) };
}
