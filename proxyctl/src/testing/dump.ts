/** A dump of a proxy with two Gateways, for tests of tables and summaries. It has every field that they show. */
import { type ConfigDump, configDumpSchema, type EndpointState } from "@gatewayproxy/admin-api/config-dump";

const valid = { type: "Accepted", status: "True", reason: "Valid", message: "every entry is enforced" } as const;
const accepted = { type: "Accepted", status: "True", reason: "Accepted", message: "the route is accepted" } as const;
const resolved = {
  type: "ResolvedRefs",
  status: "True",
  reason: "ResolvedRefs",
  message: "all references are resolved",
} as const;

const gatewayAccepted = { ...accepted, message: "Gateway is accepted" } as const;
const programmed = {
  type: "Programmed",
  status: "True",
  reason: "Programmed",
  message: "1 of 1 listeners are programmed",
} as const;
const notOpen = { status: "False", reason: "Pending", message: "*:9090: address in use; it is tried again" } as const;

function endpoint(shape: Partial<EndpointState>): EndpointState {
  return {
    type: "Service",
    name: "chat",
    namespace: "default",
    endpoint: "chat-7d9f-abcde",
    address: "10.244.0.7:8080",
    health: 1,
    requests: 0,
    inFlight: 0,
    consecutiveFailures: 0,
    timesEjected: 0,
    failsHealthChecks: false,
    ...shape,
  };
}

/** Parsed by the schema, so that a proxy could send it. */
export const sampleDump: ConfigDump = configDumpSchema.parse({
  version: {
    name: "gateway-proxy",
    version: "0.1.0",
    node: "26.10.0",
    platform: "linux-x64",
    startedAt: "2026-11-21T10:00:00.000Z",
  },
  config: {
    mode: "file",
    source: "/etc/gateway",
    settings: { workers: 2 },
    generation: 3,
    servingSince: "2026-11-21T10:05:00.000Z",
    workers: [
      { worker: 1, generation: 3 },
      { worker: 2, generation: 3 },
    ],
    problems: [
      {
        message: "no Service default/gone is known",
        resource: "HTTPRoute default/legacy",
        path: "spec.rules[0].backendRefs[0]",
        location: { file: "/etc/gateway/legacy.yaml", line: 12, column: 9 },
      },
    ],
    notServed: [
      { resource: "HTTPRoute default/orphan", reason: "NoMatchingParent", message: "no listener is named admin" },
    ],
  },
  binds: [
    {
      key: "*:8080",
      port: 8080,
      isOpen: true,
      listeners: [
        {
          key: "default/web/http",
          name: "http",
          gateway: { namespace: "default", name: "web" },
          protocol: "HTTP",
          routes: [
            { route: "default/chat", hostnames: ["chat.example.com"] },
            { route: "default/legacy", hostnames: [] },
          ],
        },
      ],
    },
    {
      key: "*:9090",
      port: 9090,
      isOpen: false,
      fault: "address in use",
      listeners: [
        {
          key: "team/internal/http",
          name: "http",
          gateway: { namespace: "team", name: "internal" },
          protocol: "HTTP",
          hostname: "*.internal",
          routes: [],
        },
      ],
    },
  ],
  gateways: [
    { namespace: "default", name: "web", conditions: [gatewayAccepted, programmed] },
    { namespace: "team", name: "internal", conditions: [gatewayAccepted, { ...programmed, ...notOpen }] },
  ],
  listeners: [
    { gateway: { namespace: "default", name: "web" }, name: "http", attachedRoutes: 2, conditions: [accepted] },
    {
      gateway: { namespace: "team", name: "internal" },
      name: "http",
      attachedRoutes: 0,
      conditions: [accepted, { ...programmed, ...notOpen }],
    },
  ],
  conflicts: {
    rules: [
      {
        route: "default/legacy",
        rule: "default/legacy/old",
        isReachable: true,
        winners: [
          {
            listener: "default/web/http",
            hostname: "chat.example.com",
            route: "default/chat",
            rule: "default/chat/0",
            decidedBy: "OlderRoute",
            extent: "Overlap",
          },
        ],
        winnersLeftOut: 0,
        message: "requests that rule 0 of HTTPRoute default/chat matches, too, do not reach rule old",
      },
    ],
    leftOut: 3,
    unexaminedHostnames: 0,
  },
  routes: [
    {
      key: "default/chat",
      namespace: "default",
      name: "chat",
      hostnames: ["chat.example.com"],
      listeners: ["default/web/http"],
      parents: [{ parent: "Gateway default/web", conditions: [accepted, resolved] }],
      rules: [
        {
          key: "default/chat/0",
          matches: [
            {
              path: { kind: "PathPrefix", value: "/v1" },
              method: "POST",
              headers: [{ kind: "Exact", name: "x-model", value: "gpt" }],
              query: [],
            },
            {
              path: { kind: "Exact", value: "/healthz" },
              headers: [],
              query: [{ kind: "RegularExpression", name: "deep", value: "^1$" }],
            },
          ],
          filters: [{ kind: "RequestHeaderModifier" }],
          backendRefs: [
            { backend: "Service/default/chat:80", weight: 9, filters: [] },
            { backend: "Backend/default/openai", weight: 1, filters: [] },
          ],
          limits: [
            { policy: "default/chat-limits", target: "HTTPRoute/default/chat", entry: 0, mode: "Enforce" },
            { policy: "default/chat-limits", target: "HTTPRoute/default/chat", entry: 1, mode: "Shadow" },
            { policy: "default/ceiling", target: "Gateway/default/web", mode: "Shadow" },
          ],
        },
      ],
    },
    {
      key: "default/legacy",
      namespace: "default",
      name: "legacy",
      hostnames: [],
      listeners: ["default/web/http"],
      parents: [
        {
          parent: "Gateway default/web",
          conditions: [
            accepted,
            { ...resolved, status: "False", reason: "BackendNotFound", message: "no Service default/gone is known" },
          ],
        },
      ],
      rules: [
        {
          key: "default/legacy/old",
          name: "old",
          matches: [{ path: { kind: "PathPrefix", value: "/" }, headers: [], query: [] }],
          filters: [],
          backendRefs: [{ weight: 1, filters: [], fault: "no Service default/gone is known" }],
          limits: [],
        },
      ],
    },
    {
      key: "default/orphan",
      namespace: "default",
      name: "orphan",
      hostnames: [],
      listeners: [],
      parents: [
        {
          parent: "Gateway default/web#admin",
          conditions: [
            { ...accepted, status: "False", reason: "NoMatchingParent", message: "no listener is named admin" },
          ],
        },
      ],
      rules: [],
    },
  ],
  backends: [
    {
      key: "Backend/default/openai",
      type: "Backend",
      namespace: "default",
      name: "openai",
      protocol: "https",
      serverName: "api.openai.com",
      ai: { provider: "openai", model: "gpt-5-mini", credentials: "secret" },
      endpoints: [
        endpoint({
          type: "Backend",
          name: "openai",
          endpoint: "backend",
          address: "api.openai.com:443",
          health: 0.7,
          requests: 40,
          consecutiveFailures: 1,
          inFlight: 2,
          latencyMs: 812.345,
        }),
      ],
    },
    {
      key: "Backend/default/several",
      type: "Backend",
      namespace: "default",
      name: "several",
      protocol: "http",
      failover: {
        firstByteTimeoutMs: 10_000,
        providers: [
          {
            ...{ backend: "Backend/default/openai", priority: 0, weight: 3 },
            ...{ state: "OutOfQuota", forMs: 42_000, consecutiveFailures: 0 },
          },
          {
            ...{ backend: "Backend/default/spare for default/web", priority: 1, weight: 1 },
            ...{ state: "Failing", forMs: 8_000, consecutiveFailures: 5 },
          },
        ],
      },
      endpoints: [
        endpoint({ type: "Backend", name: "several", endpoint: "openai", address: "api.openai.com:443", health: 0.7 }),
        endpoint({ type: "Backend", name: "several", endpoint: "spare", address: "192.0.2.1:443", health: 0.1 }),
      ],
    },
    {
      key: "Service/default/chat:80",
      type: "Service",
      namespace: "default",
      name: "chat",
      protocol: "http",
      endpoints: [
        endpoint({ requests: 1200, latencyMs: 3.2 }),
        endpoint({
          endpoint: "chat-7d9f-fghij",
          address: "10.244.0.8:8080",
          health: 0.034,
          requests: 17,
          consecutiveFailures: 5,
          timesEjected: 2,
          latencyMs: 0.9,
          ejectedForMs: 3_300,
        }),
      ],
    },
    {
      key: "Service/default/idle:80",
      type: "Service",
      namespace: "default",
      name: "idle",
      protocol: "http",
      endpoints: [],
    },
  ],
  workloads: [],
  services: [],
  policies: [
    {
      namespace: "default",
      name: "ceiling",
      targets: [{ target: "Gateway/default/web", isAttached: true, conditions: [valid] }],
      local: [],
      global: {
        service: "Service/default/ratelimit:8081",
        domain: "chat",
        timeoutMs: 100,
        failureMode: "Local",
        mode: "Shadow",
        descriptors: [
          { index: 0, counts: "requests", entries: [{ key: "user", expression: 'request.headers["x-user"]' }] },
        ],
        fallback: [{ counts: "requests", amount: 50, burst: 0, unit: "Minutes", mode: "Enforce" }],
      },
    },
    {
      namespace: "default",
      name: "chat-limits",
      targets: [
        { target: "HTTPRoute/default/chat", isAttached: true, conditions: [valid] },
        {
          target: "HTTPRoute/default/gone",
          isAttached: false,
          conditions: [
            valid,
            {
              type: "Attached",
              status: "False",
              reason: "TargetNotFound",
              message: "there is no HTTPRoute default/gone",
            },
          ],
        },
      ],
      local: [
        { counts: "requests", amount: 10, burst: 5, unit: "Minutes", mode: "Enforce" },
        {
          counts: "tokens",
          amount: 1000,
          burst: 0,
          unit: "Hours",
          key: 'request.headers["x-api-key"]',
          mode: "Shadow",
        },
      ],
    },
  ],
});
