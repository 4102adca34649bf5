/**
 * `GET /debug/trace`: server-sent events about one request. First the comment `: ready`, then one `data:` line of JSON
 * per event, `: keepalive` every second, and the end of the stream when the request has ended. Values of headers that
 * carry secrets read `<redacted>`.
 */
import * as z from "zod";
import { count, type Immutable, shownText } from "./shape.ts";

export const severities = ["success", "info", "warn", "error"] as const;

const header = z.object({ name: z.string(), value: z.string() });

const requestStarted = z.object({
  type: z.literal("requestStarted"),
  requestId: z.string(),
  worker: z.int().min(1),
  method: z.string(),
  scheme: z.string(),
  authority: z.string(),
  path: z.string().describe("As received; values of query parameters that carry secrets read `<redacted>`."),
  httpVersion: z.string(),
  sourceAddress: z.string(),
  headers: z.array(header).describe("As received, in their order."),
});

const routeSelection = z.object({
  type: z.literal("routeSelection"),
  listener: z.string().optional().describe("Key of the listener of the request's host; absent for none."),
  route: z.string().optional().describe("`namespace/name` of the HTTPRoute; absent where none matches."),
  rule: z.string().optional().describe("Key of the rule: `namespace/name/0`."),
  match: z.string().optional().describe("The match that held, in words: `path prefix /v1, method POST`."),
  evaluatedRoutes: z.array(z.string()).describe("Routes of the listener, as `namespace/name`, in their order."),
  passedOver: z
    .array(z.string())
    .optional()
    .describe(
      "Other rules of the listener with the first of their conditions that does not hold, those first that nearly match: `default/chat/1: method is not POST`. At most 50; absent for none.",
    ),
  passedOverMore: count.optional().describe("Rules that are not listed in `passedOver`; absent for none."),
});

const policySelection = z.object({
  type: z.literal("policySelection"),
  policies: z.array(
    z.object({
      policy: z.string().describe("`namespace/name` of the ProxyPolicy."),
      target: z.string(),
      local: count.describe("Its local entries that apply."),
      global: z.boolean().describe("Whether it has a global limit that applies."),
    }),
  ),
});

const policy = z.object({
  type: z.literal("policy"),
  kind: z.enum(["localRateLimit", "globalRateLimit"]),
  policy: z.string(),
  target: z.string(),
  mode: z.enum(["Enforce", "Shadow"]),
  decision: z.enum(["allowed", "denied", "shadowDenied"]),
  entry: count.optional().describe("Of a local limit: its place in the policy's list, from 0."),
  counts: z.enum(["requests", "tokens"]).optional(),
  key: shownText.optional(),
  limit: count.optional().describe("Units at hand when full."),
  before: count.optional().describe("Units counted before this request."),
  cost: count.optional().describe("Units that it cost; 0 where another entry refused, and for tokens, charged later."),
  after: count.optional(),
  by: z
    .enum(["service", "cache", "fallback", "learned", "failureMode", "none"])
    .optional()
    .describe("Of a global limit: who decided."),
  service: z.string().optional(),
});

const backendCallStart = z.object({
  type: z.literal("backendCallStart"),
  backend: z.string().describe("Key of the backend."),
  target: z.string().describe("`host:port` of the endpoint."),
  endpoint: z.string().describe("Its name: the pod, or `backend`."),
  call: z.int().min(1).describe("Which call for this request, retries included."),
});

const backendCallResult = z.object({
  type: z.literal("backendCallResult"),
  backend: z.string(),
  target: z.string(),
  call: z.int().min(1),
  status: z.int().optional().describe("Absent where no answer came."),
  headers: z.array(header).optional(),
  error: z.string().optional(),
});

const llmUsage = z.object({
  type: z.literal("llmUsage"),
  inputTokens: count.optional(),
  outputTokens: count.optional(),
  totalTokens: count.optional().describe("What budgets are charged; absent where nothing was counted."),
  model: z.string().optional(),
  estimated: z.boolean().optional().describe("A figure is bytes ÷ 4, because the upstream did not tell."),
  uncounted: z
    .string()
    .optional()
    .describe("Why nothing was counted: absent, stored, malformed, undecodable, errorStatus."),
});

const requestFinished = z.object({
  type: z.literal("requestFinished"),
  status: count.describe("0 when the client left before an answer began."),
  reason: z.string().optional().describe("Why the proxy itself answered or gave up, such as RateLimited."),
  calls: count,
  requestBytes: count,
  responseBytes: count,
});

export const traceMessageSchema = z.discriminatedUnion("type", [
  requestStarted,
  routeSelection,
  policySelection,
  policy,
  backendCallStart,
  backendCallResult,
  llmUsage,
  requestFinished,
]);
export type TraceMessage = Immutable<z.output<typeof traceMessageSchema>>;

export const traceEventSchema = z.object({
  eventStart: z.number().min(0).describe("Microseconds since the request began."),
  eventEnd: z.number().min(0).describe("The same as `eventStart` for what takes no time."),
  severity: z.enum(severities),
  message: traceMessageSchema,
});
export type TraceEvent = Immutable<z.output<typeof traceEventSchema>>;
