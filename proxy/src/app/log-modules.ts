/** The log modules of the proxy and the subjects of their lines. `docs/logs.md` contains this table. */
export const proxyLogModules = {
  "proxy::lifecycle": "start, readiness, shutdown",
  "proxy::config": "problems of resources with their location, changed conditions, generations, listening addresses",
  "proxy::kubernetes": "the connected cluster, and failed watches",
  "proxy::routing": "at debug: the rule that a request matches, and why others do not match",
  "proxy::ratelimit":
    "rate limit services that become unavailable, return, or send invalid responses; at debug: each decision of a limit",
  "proxy::upstream":
    "at debug: the endpoint of each attempt, retries, ejected endpoints and their return, health checks, DNS",
  "proxy::state": "counters that outlive the process (`--state-dir`): restored, put aside, or not saved",
  "proxy::workers": "worker threads that end",
  "proxy::server":
    "internal errors of the proxy, and connections that are closed to save memory; at debug: each client connection, and its TLS",
  "proxy::admin": "the admin server",
  "proxy::tracing": "problems of the export of spans and of logs",
  "proxy::metrics": "problems of the export of metrics",
  "proxy::access": "requests: one line for each at its end; at debug: another one at its start",
} as const;
