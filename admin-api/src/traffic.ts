/**
 * `GET /traffic`: what the workers have counted since the process started, added up over all of them. Figures grow from
 * one answer to the next; two answers with the same `startedAt` give the traffic in between.
 */
import * as z from "zod";
import { count, type Immutable, timestamp } from "./shape.ts";

const statusCount = z.object({
  status: z.int().min(0).max(599).describe("Status of the answer; 0 where the client left before one began."),
  requests: count,
});

const reasonCount = z.object({
  reason: z.string().describe("Why the proxy itself answered or gave up, such as `RateLimited`."),
  requests: count,
});

const durations = z.object({
  boundsSeconds: z.array(z.number()).describe("Upper bounds of the buckets, ascending; the last bucket has none."),
  requests: z.array(count).describe("Requests of each bucket alone, one more than there are bounds."),
});

const denial = z.object({
  policy: z.string().describe("`namespace/name` of the ProxyPolicy."),
  target: z
    .string()
    .describe("`HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section` if it names one."),
  entry: count
    .optional()
    .describe("Of a local limit: its place in the policy's list, from 0. Absent for the policy's global limit."),
  counts: z.enum(["requests", "tokens"]).optional().describe("Of a local limit."),
  denied: count.describe("Requests that this limit refused. Several limits can refuse the same request."),
  shadowDenied: count.describe("Requests that it would have refused, had its mode not been Shadow."),
});

const tokens = z.object({
  input: count,
  output: count,
  other: count.describe("What totals have beyond input and output."),
  estimatedResponses: count.describe("Responses whose tokens were estimated, in full or in part."),
});

const route = z.object({
  route: z.string().describe("`namespace/name` of the HTTPRoute; empty where no route matched."),
  requests: count,
  clientErrors: count.describe("Answers with a status from 400 to 499, denials included."),
  serverErrors: count.describe("Answers with a status from 500 on."),
  denied: count.describe("Requests that limits refused."),
  tokens: count.describe("Input, output and other."),
});

export const trafficSchema = z.object({
  at: timestamp,
  startedAt: timestamp.describe("When the process started; figures begin at 0 there."),
  uptimeSeconds: z.number().min(0).describe("Since the process started, by a clock that is never set."),
  requests: count.describe("Requests that ended."),
  requestsUnderWay: count,
  openConnections: count.describe("Connections of clients."),
  statuses: z.array(statusCount).describe("By status, ascending."),
  reasons: z.array(reasonCount).describe("Most frequent first."),
  durations: durations.describe("From the complete head of a request to the last byte of its answer."),
  denials: z
    .array(denial)
    .describe("Limits that have refused a request, or would have; those that refused most first."),
  tokens: tokens.describe(
    "Tokens of LLM responses. Of more than 100 models in ten minutes the sum loses those used longest ago.",
  ),
  routes: z.array(route).describe("At most 50, those with most requests first."),
  routesLeftOut: count,
});
export type Traffic = Immutable<z.output<typeof trafficSchema>>;
export type TrafficRoute = Traffic["routes"][number];
export type Denial = Traffic["denials"][number];
