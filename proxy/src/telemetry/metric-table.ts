/** Every metric of the proxy, declared once; `docs/metrics.md` is made from this table and a test holds it there. */
import type { MetricTable } from "@gatewayproxy/runtime/metrics";

/** Seconds; the upper ones are for LLM responses, which take minutes. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** Counted by the workers, each for itself. */
export const requestMetrics = {
  requests: {
    name: "gateway_proxy_http_requests_total",
    type: "counter",
    help: "Requests that ended. `code` is 0 when the client left before an answer; `reason` says why the proxy itself answered or gave up, and is empty when the answer was the backend's own.",
    labels: ["listener", "route", "backend", "method", "code", "reason"],
  },
  requestDuration: {
    name: "gateway_proxy_http_request_duration_seconds",
    type: "histogram",
    help: "From the complete head of a request to the last byte of its answer.",
    labels: ["listener", "route"],
    buckets: durationBuckets,
  },
  activeRequests: {
    name: "gateway_proxy_http_requests_active",
    type: "gauge",
    help: "Requests under way.",
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
    help: "Connections of clients that are open.",
    labels: ["bind"],
  },
  shedConnections: {
    name: "gateway_proxy_downstream_connections_shed_total",
    type: "counter",
    help: "Connections of clients that were closed because `--max-client-memory` was used up: `idle` ones, the `newest` of an address that had no idle one, or, as `head`, those with an incomplete head, waiting requests, or refused ones whose answers the client did not take. `timeout`: their HTTP/2 header block or HTTP/1 trailers did not end within 60 s.",
    labels: ["reason"],
  },
  upstreamRequests: {
    name: "gateway_proxy_upstream_requests_total",
    type: "counter",
    help: "Requests sent to an endpoint. `code` is the status of its answer, or `none` where none began.",
    labels: ["backend", "endpoint", "code"],
  },
  upstreamDuration: {
    name: "gateway_proxy_upstream_response_seconds",
    type: "histogram",
    help: "From the call to the head of the endpoint's answer.",
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
    help: "Calls to a backend beyond the first of each request.",
    labels: ["backend"],
  },
  mirroredRequests: {
    name: "gateway_proxy_mirrored_requests_total",
    type: "counter",
    help: "Copies of requests by the backend that they were for: `sent` (and answered), `failed`, or `skipped` because the body was too long or the backend had too much under way.",
    labels: ["backend", "outcome"],
  },
  limitDecisions: {
    name: "gateway_proxy_limit_decisions_total",
    type: "counter",
    help: "What each entry of each policy decided: `allowed`, `denied`, or `shadow_denied` (it would have denied, but only watches). `counts` is `requests` or `tokens`.",
    labels: ["policy", "entry", "target", "counts", "decision"],
  },
  globalLimitDecisions: {
    name: "gateway_proxy_global_limit_decisions_total",
    type: "counter",
    help: "What became of requests under a global limit: `allowed`, `denied` or `shadow_denied`, and who decided: the `service`, the `cache` of its refusals, the policy's `fallback`, limits `learned` from the service, the `failureMode`, or nobody, for `none` of its descriptors applied.",
    labels: ["policy", "target", "decision", "by"],
  },
  tokens: {
    name: "gateway_proxy_llm_tokens_total",
    type: "counter",
    help: "Tokens of LLM responses. `type` is `input`, `output`, or `other` for what a total has beyond these two; `model` is what the response said, `other` beyond 100 models of the last ten minutes.",
    labels: ["route", "backend", "model", "type"],
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
    help: "Responses under a token limit that added nothing to it: `absent` (nothing was generated), `stored` (copies of answers that were charged), `malformed`, `undecodable` or `errorStatus`.",
    labels: ["route", "backend", "reason"],
  },
  faults: {
    name: "gateway_proxy_faults_total",
    type: "counter",
    help: "Faults inside the proxy that it survived, by what each of them ended: a `request`, a `connection` of a client, what a `timer` was about, calls of a rate limit service (`globalLimit`), or a `task` that nobody waited for. Please report them; the log has the stacks of up to 5 a second and worker.",
    labels: ["place"],
  },
  droppedLogLines: {
    name: "gateway_proxy_access_log_lines_dropped_total",
    type: "counter",
    help: "Lines of the access log that were dropped because nobody read the output fast enough.",
    labels: [],
  },
} as const satisfies MetricTable;

/** Counted by the workers, about the services that count global limits. `service` is as in a policy. */
export const globalLimitMetrics = {
  calls: {
    name: "gateway_proxy_global_limit_calls_total",
    type: "counter",
    help: "Calls of a rate limit service, charges included: `ok`, `over_limit`, or why there was no answer to go by: `timeout`, `unavailable`, `failed`, `rejected`, `exhausted`, `garbage`, `unknown`.",
    labels: ["service", "outcome"],
  },
  callDuration: {
    name: "gateway_proxy_global_limit_call_duration_seconds",
    type: "histogram",
    help: "How long a call of a rate limit service took, well or not.",
    labels: ["service"],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
  },
  openBreakers: {
    name: "gateway_proxy_global_limit_breakers_open",
    type: "gauge",
    help: "Workers that ask a rate limit service nothing because it is away.",
    labels: ["service"],
  },
  breakerChanges: {
    name: "gateway_proxy_global_limit_breaker_changes_total",
    type: "counter",
    help: "How often a worker's breaker went `open` or `closed`.",
    labels: ["service", "state"],
  },
  bufferedCharges: {
    name: "gateway_proxy_global_limit_charges_buffered",
    type: "gauge",
    help: "Charges of tokens that wait for their rate limit service to come back.",
    labels: ["service"],
  },
  droppedCharges: {
    name: "gateway_proxy_global_limit_charges_dropped_total",
    type: "counter",
    help: "Charges of tokens that never reached their rate limit service: too many waited (`overflow`), one waited too long (`expired`), the service did not take it (`rejected`) or failed to count it five times (`failed`), or no policy names the service any more (`retired`).",
    labels: ["service", "reason"],
  },
} as const satisfies MetricTable;

/** Counted by the main thread. */
export const processMetrics = {
  configGeneration: {
    name: "gateway_proxy_config_generation",
    type: "gauge",
    help: "The generation of the configuration that serves; 0 before the first.",
    labels: [],
  },
  configRejected: {
    name: "gateway_proxy_config_rejected_total",
    type: "counter",
    help: "Sets of resources that were read with something new wrong in them. What is wrong is not served, or in its last good version; the rest is.",
    labels: [],
  },
  configReloaded: {
    name: "gateway_proxy_config_last_reload_success_timestamp_seconds",
    type: "gauge",
    help: "When resources were last read with nothing wrong in them, in seconds since the Unix epoch.",
    labels: [],
  },
  heldBodyBytes: {
    name: "gateway_proxy_request_body_memory_bytes",
    type: "gauge",
    help: "Memory that request bodies have of `--max-body-memory`.",
    labels: [],
  },
  evictedCounters: {
    name: "gateway_proxy_limit_counters_evicted_total",
    type: "counter",
    help: "Counters of limits with a `key` that were given up for a newer key because the table was full.",
    labels: [],
  },
  workers: {
    name: "gateway_proxy_workers",
    type: "gauge",
    help: "Worker threads that serve.",
    labels: [],
  },
  workerRestarts: {
    name: "gateway_proxy_worker_restarts_total",
    type: "counter",
    help: "Worker threads that ended unexpectedly and were started again.",
    labels: [],
  },
} as const satisfies MetricTable;

/** All of them, in the order of the docs and of the exposition. */
export const metricTable: MetricTable = { ...requestMetrics, ...globalLimitMetrics, ...processMetrics };
