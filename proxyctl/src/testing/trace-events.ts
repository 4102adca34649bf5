/** Traces as a proxy sends them, for tests of their views. */
import { type TraceEvent, type TraceMessage, traceEventSchema } from "@gatewayproxy/admin-api/trace-event";

type Severity = TraceEvent["severity"];

function event(eventStart: number, eventEnd: number, severity: Severity, message: TraceMessage): TraceEvent {
  return traceEventSchema.parse({ eventStart, eventEnd, severity, message });
}

const started: TraceMessage = {
  type: "requestStarted",
  requestId: "4c1f7a52-7a0f-4f43-9d6a-0b6c0f5c2f11",
  worker: 1,
  method: "POST",
  scheme: "http",
  authority: "chat.example.com",
  path: "/v1/chat/completions",
  httpVersion: "1.1",
  sourceAddress: "127.0.0.1",
  headers: [
    { name: "host", value: "chat.example.com" },
    { name: "authorization", value: "<redacted>" },
    { name: "x-note", value: "one\u001b[31mred" },
  ],
};

/** An LLM request under two local limits and a global one, with a 200 response. */
export const chatTrace: readonly TraceEvent[] = [
  event(0, 0, "info", started),
  event(40, 90, "info", {
    type: "routeSelection",
    listener: "default/web/http",
    route: "default/chat",
    rule: "default/chat/0",
    match: "path prefix /v1, method POST",
    evaluatedRoutes: ["default/chat", "default/legacy"],
  }),
  event(95, 95, "info", {
    type: "policySelection",
    policies: [
      { policy: "default/chat-limits", target: "HTTPRoute/default/chat", local: 2, global: false },
      { policy: "default/ceiling", target: "Gateway/default/web", local: 0, global: true },
    ],
  }),
  event(100, 130, "success", {
    type: "policy",
    kind: "localRateLimit",
    policy: "default/chat-limits",
    target: "HTTPRoute/default/chat",
    mode: "Enforce",
    decision: "allowed",
    entry: 0,
    counts: "requests",
    limit: 15,
    before: 3,
    cost: 1,
    after: 4,
  }),
  event(100, 130, "warn", {
    type: "policy",
    kind: "localRateLimit",
    policy: "default/chat-limits",
    target: "HTTPRoute/default/chat",
    mode: "Shadow",
    decision: "shadowDenied",
    entry: 1,
    counts: "tokens",
    key: { text: "sha256:0a1b2c3d…f00d", isSecret: true },
    limit: 1000,
    before: 1200,
    cost: 0,
    after: 1200,
  }),
  event(140, 940, "success", {
    type: "policy",
    kind: "globalRateLimit",
    policy: "default/ceiling",
    target: "Gateway/default/web",
    mode: "Enforce",
    decision: "allowed",
    by: "service",
    service: "Service/default/ratelimit:8081",
  }),
  event(990, 990, "info", {
    type: "backendCallStart",
    backend: "Service/default/chat:80",
    target: "10.244.0.7:8080",
    endpoint: "chat-7d9f-abcde",
    call: 1,
  }),
  event(990, 812_345, "success", {
    type: "backendCallResult",
    backend: "Service/default/chat:80",
    target: "10.244.0.7:8080",
    call: 1,
    status: 200,
    headers: [{ name: "content-type", value: "application/json" }],
  }),
  event(813_000, 813_000, "info", {
    type: "llmUsage",
    inputTokens: 12,
    outputTokens: 30,
    totalTokens: 42,
    model: "gpt-5-mini",
  }),
  event(0, 813_100, "success", {
    type: "requestFinished",
    status: 200,
    calls: 1,
    requestBytes: 75,
    responseBytes: 512,
  }),
];

/** A request for a host that no listener has. */
export const unmatchedTrace: readonly TraceEvent[] = [
  event(0, 0, "info", started),
  event(30, 60, "error", {
    type: "routeSelection",
    listener: "default/web/http",
    evaluatedRoutes: ["default/chat"],
    passedOver: ["default/chat/0: path is not under /v1"],
  }),
  event(0, 150, "warn", {
    type: "requestFinished",
    status: 404,
    reason: "RouteNotFound",
    calls: 0,
    requestBytes: 0,
    responseBytes: 16,
  }),
];

/** Encodes events as the admin server streams them. */
export function streamOf(events: readonly TraceEvent[]): string {
  return events.map((each) => `data: ${JSON.stringify(each)}\n\n`).join(": keepalive\n\n");
}
