/**
 * `GET /debug/trace`: server-sent events about one request. The stream starts with the comment `: ready`, has one
 * `data:` line of JSON per event and `: keepalive` every second, and ends with the request. Values of headers that
 * carry secrets are replaced by `<redacted>`.
 */
import * as z from "zod";
import { localCounts } from "./limits.ts";
import { count, descriptorNotApplied, type Immutable, redactedText } from "./shape.ts";

/** Severities of trace events. */
export const severities = ["success", "info", "warn", "error"] as const;

const header = z.object({ name: z.string(), value: z.string() });

const requestStarted = z.object({
  type: z.literal("requestStarted"),
  requestId: z.string(),
  traceId: z.string().optional().describe("Trace of the request, 32 hexadecimal digits; absent without one."),
  spanId: z
    .string()
    .optional()
    .describe("Span of the request in the proxy, or that of the client if the proxy does not export traces."),
  worker: z.int().min(1),
  method: z.string(),
  scheme: z.string(),
  authority: z.string(),
  path: z.string().describe("As received; values of secret query parameters are replaced by `<redacted>`."),
  httpVersion: z.string(),
  sourceAddress: z.string(),
  headers: z.array(header).describe("As received, in order."),
});

const routeSelection = z.object({
  type: z.literal("routeSelection"),
  listener: z.string().optional().describe("Key of the listener of the request's host; absent if there is none."),
  route: z
    .string()
    .optional()
    .describe("Key of the route: `namespace/name`, of a GRPCRoute `GRPCRoute/namespace/name`; absent if none matches."),
  rule: z.string().optional().describe("Key of the rule: `namespace/name/0`."),
  match: z.string().optional().describe("The match that selected the rule, as text: `path prefix /v1, method POST`."),
  model: z
    .string()
    .optional()
    .describe("Model that the request names; absent if the choice did not depend on it, and if it names none."),
  evaluatedRoutes: z.array(z.string()).describe("Routes of the listener, as `namespace/name`, in order."),
  passedOver: z
    .array(z.string())
    .optional()
    .describe(
      "Other rules of the listener, each with its first condition that is not met, best matches first: `default/chat/1: method is not POST`. At most 50; absent if there are none.",
    ),
  passedOverMore: count
    .optional()
    .describe("Number of rules that are not listed in `passedOver`; absent if there are none."),
});

const authentication = z.object({
  type: z.literal("authentication"),
  policies: z
    .array(z.object({ policy: z.string(), target: z.string(), mode: z.enum(["Required", "Optional"]) }))
    .describe("Policies that authenticate the request, in the order of their checks."),
  result: z
    .string()
    .describe("accepted, anonymous, or why the request was rejected, as in gateway_proxy_authentications_total."),
  rejectedBy: z.string().optional().describe("`namespace/name` of the policy that rejected the request."),
  identity: z
    .string()
    .optional()
    .describe("Subject of the token, or Secret of the API key: `jwt alice`, `apiKey default/acme`."),
});

const policySelection = z.object({
  type: z.literal("policySelection"),
  policies: z.array(
    z.object({
      policy: z.string().describe("`namespace/name` of the ProxyPolicy."),
      target: z.string(),
      local: count.describe("Number of its local limits that apply."),
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
  decision: z
    .enum(["allowed", "denied", "shadowDenied", "notApplied"])
    .describe("`notApplied`: the condition `when` of the entry is false for the request."),
  entry: count.optional().describe("Index of a local limit in the policy's list, from 0."),
  name: z.string().optional().describe("Name of the entry, if it has one."),
  when: z.string().optional().describe("Condition of the entry, if it does not apply to the request."),
  counts: localCounts.optional(),
  key: redactedText.optional(),
  limit: count.optional().describe("Units per window, burst included."),
  before: count.optional().describe("Units counted before this request."),
  cost: count
    .optional()
    .describe("Units that it cost; 0 if another entry denied it, and for tokens and spend, which are charged later."),
  after: count.optional(),
  by: z
    .enum(["service", "cache", "fallback", "learned", "failureMode", "none"])
    .optional()
    .describe("What decided on a global limit."),
  service: z.string().optional(),
  notApplied: z
    .array(descriptorNotApplied)
    .optional()
    .describe("Descriptors of a global limit that do not apply to the request; absent if all apply."),
});

const backendCallStart = z.object({
  type: z.literal("backendCallStart"),
  backend: z.string().describe("Key of the backend."),
  target: z.string().describe("`host:port` of the endpoint."),
  endpoint: z.string().describe("Its name: the pod, or `backend`."),
  call: z.int().min(1).describe("Number of the attempt, from 1; retries are further attempts."),
});

const backendCallResult = z.object({
  type: z.literal("backendCallResult"),
  backend: z.string(),
  target: z.string(),
  call: z.int().min(1),
  status: z.int().optional().describe("Absent if there was no response."),
  headers: z.array(header).optional(),
  error: z.string().optional(),
});

const llmUsage = z.object({
  type: z.literal("llmUsage"),
  inputTokens: count.optional(),
  outputTokens: count.optional(),
  totalTokens: count.optional().describe("Tokens that are charged; absent if nothing was counted."),
  cachedInputTokens: count.optional().describe("Part of the input that was read from a cache of the provider."),
  cacheCreationTokens: count.optional().describe("Part of the input that was written to a cache of the provider."),
  reasoningTokens: count.optional().describe("Part of the output that is reasoning."),
  cost: count
    .optional()
    .describe("What the tokens cost, in millionths of the currency; absent if the Backend has no price for the model."),
  currency: z.string().optional().describe("Currency of the cost; absent if the Backend does not name it."),
  model: z.string().optional(),
  estimated: z
    .boolean()
    .optional()
    .describe("Whether a figure is estimated as bytes ÷ 4, since the upstream reported no usage."),
  uncounted: z
    .string()
    .optional()
    .describe("Why nothing was counted: absent, stored, malformed, undecodable, errorStatus."),
});

const requestFinished = z.object({
  type: z.literal("requestFinished"),
  status: count.describe("0 if the client closed the connection before a response began."),
  reason: z.string().optional().describe("Reason of a local reply or an aborted request, such as RateLimited."),
  calls: count,
  requestBytes: count,
  responseBytes: count,
});

/** What happened, by `type`. */
export const traceMessageSchema = z.discriminatedUnion("type", [
  requestStarted,
  routeSelection,
  policySelection,
  authentication,
  policy,
  backendCallStart,
  backendCallResult,
  llmUsage,
  requestFinished,
]);
/** What happened, by `type`. */
export type TraceMessage = Immutable<z.output<typeof traceMessageSchema>>;

/** One event of `GET /debug/trace`. */
export const traceEventSchema = z.object({
  eventStart: z.number().min(0).describe("Microseconds since the request began."),
  eventEnd: z.number().min(0).describe("Equal to `eventStart` for an event without duration."),
  severity: z.enum(severities),
  message: traceMessageSchema,
});
/** One event of `GET /debug/trace`. */
export type TraceEvent = Immutable<z.output<typeof traceEventSchema>>;
