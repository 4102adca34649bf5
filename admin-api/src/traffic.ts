/**
 * `GET /traffic`: the counts of all workers since the process started. They only grow: the difference of two responses
 * with the same `startedAt` is the traffic between them.
 */
import * as z from "zod";
import { localCounts } from "./limits.ts";
import { count, type Immutable, timestamp } from "./shape.ts";

const statusCount = z.object({
  status: z
    .int()
    .min(0)
    .max(599)
    .describe("Status of the response; 0 if the client closed the connection before one began."),
  requests: count,
});

const reasonCount = z.object({
  reason: z.string().describe("Reason of a local reply or an aborted request, such as `RateLimited`."),
  requests: count,
});

const durations = z.object({
  boundsSeconds: z.array(z.number()).describe("Upper bounds of the buckets, ascending; the last bucket has none."),
  requests: z.array(count).describe("Requests in each bucket, not cumulative; one more than there are bounds."),
});

const denial = z.object({
  policy: z.string().describe("`namespace/name` of the ProxyPolicy."),
  target: z
    .string()
    .describe("`HTTPRoute/namespace/name`, `GRPCRoute/…` or `Gateway/…`, with `#section` if it names one."),
  entry: count
    .optional()
    .describe(
      "Index of a local limit in the policy's list, from 0. Absent for one with a name, and for the global limit.",
    ),
  name: z.string().optional().describe("Name of a local limit; absent for one without."),
  counts: localCounts.optional().describe("What a local limit counts."),
  denied: count.describe("Requests that this limit denied. Several limits can deny the same request."),
  shadowDenied: count.describe("Requests that it would have denied if its mode were not Shadow."),
  notApplied: count.default(0).describe("Requests for which its condition was false."),
});

const tokens = z.object({
  input: count,
  output: count,
  other: count.describe("Tokens of totals beyond input and output."),
  estimatedResponses: count.describe("Responses whose tokens were estimated, in full or in part."),
});

const route = z.object({
  route: z
    .string()
    .describe(
      "Key of the route: `namespace/name`, of a GRPCRoute `GRPCRoute/namespace/name`; empty where no route matched.",
    ),
  requests: count,
  clientErrors: count.describe("Responses with a status from 400 to 499, denials included."),
  serverErrors: count.describe("Responses with a status of 500 or more."),
  denied: count.describe("Requests that limits denied."),
  tokens: count.describe("Input, output and other."),
});

/** The response of `GET /traffic`. */
export const trafficSchema = z.object({
  at: timestamp,
  startedAt: timestamp.describe("When the process started, with all figures at 0."),
  uptimeSeconds: z.number().min(0).describe("Time since the start, by a monotonic clock."),
  requests: count.describe("Requests that ended."),
  requestsInProgress: count,
  openConnections: count.describe("Downstream connections."),
  statuses: z.array(statusCount).describe("By status, ascending."),
  reasons: z.array(reasonCount).describe("Most frequent first."),
  durations: durations.describe("From the complete head of a request to the last byte of its response."),
  denials: z
    .array(denial)
    .describe("Limits that denied a request, would have in mode Enforce, or did not apply to one; most denials first."),
  tokens: tokens.describe(
    "Tokens of LLM responses. With more than 100 models in ten minutes, the least recently used ones are lost.",
  ),
  routes: z.array(route).describe("At most 50, most requests first."),
  routesLeftOut: count,
});
/** The response of `GET /traffic`. */
export type Traffic = Immutable<z.output<typeof trafficSchema>>;
/** The counts of one route. */
export type TrafficRoute = Traffic["routes"][number];
/** The denials of one limit. */
export type Denial = Traffic["denials"][number];
