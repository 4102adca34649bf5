/**
 * `GET /limits`: every counter whose window is open, how the rate limit services are, and what has been learned from
 * them. Counters are of this replica; a global limit's own counters are the service's.
 */
import * as z from "zod";
import { count, type Immutable, shownText, timestamp } from "./shape.ts";

export const limitUnit = z.enum(["Seconds", "Minutes", "Hours"]);

const counter = z.object({
  policy: z.string().describe("`namespace/name` of the ProxyPolicy."),
  entry: count.describe("The entry's place in the policy's list, from 0."),
  target: z
    .string()
    .describe("`HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section` if it names one."),
  source: z
    .enum(["local", "fallback"])
    .describe("The list: `local`, or `global.fallback`, which counts while the rate limit service is away."),
  counts: z.enum(["requests", "tokens"]),
  unit: limitUnit,
  mode: z.enum(["Enforce", "Shadow"]),
  key: shownText.optional().describe("Value of the entry's `key`; absent for the one counter of all."),
  limit: count.describe("Units at hand when full: requests and burst, or tokens."),
  burst: count.default(0).describe("Part of `limit` beyond what the end of a window gives back."),
  used: count.describe("Units counted and not given back; above `limit` where a charge overshot."),
  remaining: count.describe("What is left; 0 refuses."),
  resetSeconds: count.describe("Whole seconds to the end of the window."),
});

const service = z.object({
  service: z.string().describe("Key of its backend: `Service/default/ratelimit:8081`."),
  breaker: z
    .enum(["closed", "open"])
    .describe("Open on some worker: that worker's requests do not wait for the service."),
  openOn: count.describe("Workers whose breaker is open."),
  workers: count.describe("Workers that use the service."),
  since: timestamp.describe("When the breaker took this state: open on its first worker, or closed on its last."),
  cause: z.string().optional().describe("The failure that opened it."),
  lastError: z
    .object({ message: z.string(), at: timestamp })
    .optional()
    .describe("How the last call went that failed, also of a service that is back; absent where none has."),
  failuresInARow: count
    .default(0)
    .describe("Calls without a decision since the last that got one, of the worker that has most; 0 when all is well."),
  chargesBuffered: count.describe("Charges that wait for the service, of all workers."),
  refusalsRemembered: count.describe("Refusals that need no call while they last; each worker counts its own."),
  limitsLearned: count.describe("Limits that the service has reported; each worker counts its own."),
});

const learned = z.object({
  policy: z.string(),
  target: z.string(),
  service: z.string(),
  descriptor: z.array(z.object({ key: z.string(), value: shownText })),
  counts: z.enum(["requests", "tokens"]),
  limit: count.describe("Units per window, by the word of the service."),
  windowSeconds: count,
});

export const limitsSchema = z.object({
  at: timestamp,
  counters: z.array(counter).describe("Those nearest to exhaustion first; at most as many as `?max=` says (1,000)."),
  countersLeftOut: count.describe("Open counters beyond those."),
  services: z.array(service).describe("Rate limit services that policies name, by key."),
  learned: z
    .array(learned)
    .describe("Limits that services have reported, enforced while they are away; at most as many as `?max=` says."),
});
export type Limits = Immutable<z.output<typeof limitsSchema>>;
export type LimitCounter = Limits["counters"][number];
export type RateLimitService = Limits["services"][number];
export type LearnedLimit = Limits["learned"][number];
