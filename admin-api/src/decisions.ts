/**
 * `GET /limits/decisions?id=<x-request-id>`, `?trace_id=`, or `?source=` for the address of a client: why a request, a
 * connection or a UDP session was denied. Each worker keeps the last 1,024 denials of requests, and those of
 * connections and sessions; without a parameter the response has all of them, the newest first.
 */
import * as z from "zod";
import { limitUnit, limitWindow, localCounts } from "./limits.ts";
import { count, descriptorNotApplied, type Immutable, redactedText, timestamp } from "./shape.ts";

const limited = {
  at: timestamp,
  worker: z.int().min(1),
  listener: z.string().optional(),
  route: z.string().optional(),
  rule: z.string().optional(),
  policy: z.string().describe("`namespace/name` of the ProxyPolicy that denied it."),
  target: z
    .string()
    .describe("`HTTPRoute/namespace/name`, `TCPRoute/…`, `Gateway/…` and so on, with `#section` if it names one."),
  remedies: z
    .array(z.string())
    .describe("What would allow the next one, one sentence each. The first happens without a change."),
};

const denial = {
  requestId: z.string().describe("As in `x-request-id` of the response."),
  traceId: z.string().optional().describe("Trace of the request; absent without one."),
  ...limited,
  method: z.string(),
  authority: z.string(),
  path: z.string().describe("Without its query."),
};

/** The counter of this replica that denied the request. */
const counted = z.object({
  entry: count.describe("Index of the entry in the policy's list, from 0."),
  name: z.string().optional().describe("Name of the entry, if it has one."),
  counts: localCounts,
  unit: limitUnit.optional().describe("Absent for `concurrent` and `connections`."),
  every: count.default(1).describe("Length of the window in units."),
  ...limitWindow,
  bucket: z.string().optional().describe("Bucket of its namespace that shares the counter."),
  key: redactedText.optional().describe("Value of the entry's `key`; absent if the entry has only one counter."),
  used: count.describe("Value of the counter; the denied request is not counted."),
  limit: count.describe("Units per window, burst included."),
  windowStart: timestamp,
  windowEnd: timestamp,
  notApplied: z
    .array(
      z.object({
        policy: z.string(),
        entry: count,
        name: z.string().optional(),
        when: z.string().describe("The condition of the entry, which is false for the request."),
      }),
    )
    .default([])
    .describe("Entries of the same rule that do not apply to the request."),
});

/** A denial by a local limit. */
export const localDenialSchema = z.object({ kind: z.literal("local"), ...denial, counter: counted });

/** A denial of a connection to a TLS or TCP listener, or of a UDP session, by a limit of `connections`. */
export const connectionDenialSchema = z.object({
  kind: z.literal("connection"),
  ...limited,
  protocol: z.enum(["TLS", "TCP", "UDP"]).describe("Of the listener."),
  source: z.string().describe("Address of the client."),
  serverName: z.string().optional().describe("Server name (SNI) of the client; absent without one."),
  counter: counted,
});

/** A denial by a global limit. */
export const globalDenialSchema = z.object({
  kind: z.literal("global"),
  ...denial,
  by: z
    .enum(["service", "cache", "fallback", "learned", "failureMode"])
    .describe(
      "`service`: its response to this request; `cache`: an earlier response that is still valid; `fallback`, `learned`: a counter of this replica while the service is unavailable; `failureMode`: Closed, and the service failed.",
    ),
  service: z.string().describe("Key of the service's backend."),
  domain: z.string(),
  descriptors: z
    .array(
      z.object({
        entries: z.array(z.object({ key: z.string(), value: redactedText })),
        override: z
          .object({ requestsPerUnit: count, unit: z.string() })
          .optional()
          .describe("The limit that the request asked the service for; absent: that of its configuration."),
        code: z.enum(["OK", "OVER_LIMIT", "UNKNOWN"]).optional().describe("The code that the service returned for it."),
        limit: count.optional().describe("Units per window."),
        windowSeconds: count.optional(),
        remaining: count.optional(),
        resetSeconds: count.optional(),
        estimate: count.optional().describe("Tokens that the request would have held; absent if it holds none."),
      }),
    )
    .describe("The descriptors of the request, and what the service returned for each."),
  notApplied: z
    .array(descriptorNotApplied)
    .default([])
    .describe("Descriptors of the policy that do not apply to the request."),
  counter: counted.optional().describe("Present if `by` is fallback or learned."),
});

/** A denial, by `kind`. */
export const decisionSchema = z.discriminatedUnion("kind", [
  localDenialSchema,
  globalDenialSchema,
  connectionDenialSchema,
]);
/** A denial, by `kind`. */
export type Decision = Immutable<z.output<typeof decisionSchema>>;
/** A denial by a local limit. */
export type LocalDenial = Immutable<z.output<typeof localDenialSchema>>;
/** A denial of a connection or a session. */
export type ConnectionDenial = Immutable<z.output<typeof connectionDenialSchema>>;
/** A denial by a global limit. */
export type GlobalDenial = Immutable<z.output<typeof globalDenialSchema>>;

/** The response of `GET /limits/decisions`. */
export const decisionsSchema = z.object({
  decisions: z.array(decisionSchema).describe("The newest first; empty if the parameter is not, or no longer, known."),
  remembered: count.describe("Number of denials that all workers keep now."),
  capacity: count.describe("Maximum number of denials that can be kept."),
});
/** The response of `GET /limits/decisions`. */
export type Decisions = Immutable<z.output<typeof decisionsSchema>>;
