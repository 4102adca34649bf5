/** The modules of the proxy that log, by name, with what their lines are about. `docs/logs.md` shows this table. */
export const proxyLogModules = {
  "proxy::lifecycle": "start, readiness, shutdown",
  "proxy::config": "problems of resources with their place, conditions that changed, generations, listening addresses",
  "proxy::kubernetes": "the cluster that is read, and watches of it that fail",
  "proxy::routing": "at debug: which rule a request belongs to, and why others do not match",
  "proxy::ratelimit":
    "rate limit services that become unavailable, return, or send what cannot be used; at debug: each decision of a limit",
  "proxy::upstream":
    "at debug: which endpoint a call goes to, retries, endpoints that are ejected or return, health checks, names",
  "proxy::workers": "worker threads that end",
  "proxy::server":
    "faults of the proxy, and connections that are closed to save memory; at debug: each connection of a client, and its TLS",
  "proxy::admin": "the admin server",
  "proxy::access": "requests, a line each when it has ended; at debug: another one when it begins",
} as const;
