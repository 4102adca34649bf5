/**
 * The modules of the service that log, by name, with the subject of their lines. `docs/ratelimit-service.md` names
 * them.
 */
export const serviceLogModules = {
  "ratelimit::lifecycle": "start, readiness, shutdown",
  "ratelimit::config": "limits that were loaded or rejected",
  "ratelimit::store": "Redis, as it becomes unavailable and returns; counters that operators change",
  "ratelimit::grpc": "calls and connections that were rejected",
  "ratelimit::http": "the HTTP and debug ports",
  "ratelimit::statsd": "the export of statistics",
  "ratelimit::tracing": "problems of the export of spans and of the log",
  "ratelimit::metrics": "problems of the export of metrics",
  "ratelimit::workers": "worker threads that end",
} as const;
