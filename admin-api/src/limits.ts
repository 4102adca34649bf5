/**
 * `GET /limits`: every counter whose window is open, the state of the rate limit services, and the limits learned from
 * them. `POST /limits/reset`: the counters that an operator has reset. The counters are those of this replica; a global
 * limit's own counters are in the service.
 */
import * as z from "zod";
import { count, type Immutable, redactedText, timestamp } from "./shape.ts";

/** The unit of a limit's window. */
export const limitUnit = z.enum(["Seconds", "Minutes", "Hours", "Days", "Weeks", "Months"]);

/** What a local limit counts. */
export const localCounts = z
  .enum(["requests", "tokens", "concurrent", "connections", "spend"])
  .describe(
    "`concurrent`: the requests in progress. `connections`: the open connections and UDP sessions of TLSRoutes, TCPRoutes and UDPRoutes. Both have no window. `spend`: the cost of responses, whose units are millionths of the currency.",
  );

/** How the windows of a limit follow one another. */
export const limitWindow = {
  window: z
    .enum(["Fixed", "Sliding", "Calendar"])
    .default("Fixed")
    .describe(
      "`Fixed` windows start with a request, `Calendar` windows with the days, weeks or months of a time zone.",
    ),
  timeZone: z.string().optional().describe("Time zone of `Calendar` windows."),
};

const counter = z.object({
  policy: z.string().describe("`namespace/name` of the ProxyPolicy."),
  entry: count.describe("Index of the entry in the policy's list, from 0."),
  name: z.string().optional().describe("Name of the entry, if it has one."),
  target: z
    .string()
    .describe("`HTTPRoute/namespace/name`, `GRPCRoute/…` or `Gateway/…`, with `#section` if it names one."),
  source: z
    .enum(["local", "fallback"])
    .describe("The list: `local`, or `global.fallback`, which counts while the rate limit service is unavailable."),
  counts: localCounts,
  unit: limitUnit.optional().describe("Absent for `concurrent` and `connections`."),
  every: count.default(1).describe("Length of the window in units."),
  ...limitWindow,
  bucket: z
    .string()
    .optional()
    .describe("Bucket of its namespace that shares the counter, which is listed once for each of its entries."),
  replicas: count
    .optional()
    .describe("Replicas that share the limit, so that `limit` is the share of this one; absent: it is not shared."),
  when: z.string().optional().describe("Condition of the entry; absent: it applies to every request."),
  mode: z.enum(["Enforce", "Shadow"]),
  key: redactedText.optional().describe("Value of the entry's `key`; absent if the entry has only one counter."),
  limit: count.describe(
    "Units per window: requests and burst, tokens, or spend. Where an expression gives the amount of each request, the number that applies without it.",
  ),
  burst: count.default(0).describe("The part of `limit` that the end of a window does not restore."),
  used: count.describe("Units counted, less refunds; above `limit` if a charge exceeded it."),
  held: count
    .default(0)
    .describe(
      "The part of `used` that requests in progress hold until their end: all of `concurrent` and `connections`, and for other limits the estimates of `reserve`.",
    ),
  remaining: count.describe("Remaining units; at 0 requests are denied."),
  resetSeconds: count.describe(
    "Seconds until units are restored, rounded up: at the end of the window, or of the oldest part of a sliding one.",
  ),
});

const resetEntry = z.object({
  entry: count.describe("Index of the entry in the policy's list, from 0."),
  name: z.string().optional().describe("Name of the entry, if it has one."),
  target: z.string(),
  source: z.enum(["local", "fallback"]),
  bucket: z.string().optional().describe("Bucket of its namespace, whose other entries have the same counters."),
});

/** The response of `POST /limits/reset`. */
export const limitsResetSchema = z.object({
  at: timestamp,
  policy: z.string().describe("`namespace/name` of the ProxyPolicy."),
  key: redactedText.optional().describe("Value of the key whose counters were reset; absent for all counters."),
  counters: count.describe("Counters that had units, and have their full budget now."),
  entries: z
    .array(resetEntry.extend({ counters: count.describe("Those of them that belong to this entry.") }))
    .describe("The selected entries; entries of one bucket have the same counters."),
  leftOut: z
    .array(resetEntry)
    .describe("Entries that count requests in progress, which end by themselves and are not reset."),
});
/** The response of `POST /limits/reset`. */
export type LimitsReset = Immutable<z.output<typeof limitsResetSchema>>;

const service = z.object({
  service: z.string().describe("Key of its backend: `Service/default/ratelimit:8081`."),
  breaker: z
    .enum(["closed", "open"])
    .describe("Open if it is open on any worker: requests of that worker do not call the service."),
  openOn: count.describe("Workers whose breaker is open."),
  workers: count.describe("Workers that use the service."),
  since: timestamp.describe("When the breaker took this state: opened on the first worker, or closed on the last."),
  cause: z.string().optional().describe("The failure that opened it."),
  lastError: z
    .object({ message: z.string(), at: timestamp })
    .optional()
    .describe("The last failed call, also if the service has recovered; absent if none has failed."),
  failuresInARow: count
    .default(0)
    .describe("Calls without a decision since the last one that got a decision, of the worker with most."),
  chargesBuffered: count.describe("Charges that are not sent to the service yet, of all workers."),
  denialsCached: count.describe("Cached denials, which need no call while they are valid. Each worker counts its own."),
  limitsLearned: count.describe("Limits that the service has reported, and that all workers know."),
  identity: z
    .object({
      program: z.enum(["GatewayProxy", "EnvoyRatelimit", "Limitador", "Unknown"]),
      version: z.string().optional().describe("Absent if the program does not report it."),
    })
    .optional()
    .describe("The program, found by calls that count nothing; the first request for `/limits` starts them."),
});

const stateDirectory = z.object({
  directory: z.string().describe("Its path."),
  savedUntil: timestamp
    .optional()
    .describe("Time up to which its file has everything that was counted; absent before the first save."),
  bytes: count.describe("Size of the file."),
  isFailing: z.boolean().describe("Whether the last attempt to save failed. Attempts are repeated."),
  failures: count.describe("Failed attempts since the start."),
  lastError: z
    .object({ message: z.string(), at: timestamp })
    .optional()
    .describe("The last failure, also if counters are saved again; absent if there was none."),
});
/** The state of the directory in which counters are saved. */
export type StateDirectory = Immutable<z.output<typeof stateDirectory>>;

const learned = z.object({
  policy: z.string(),
  target: z.string(),
  service: z.string(),
  descriptor: z.array(z.object({ key: z.string(), value: redactedText })),
  counts: z.enum(["requests", "tokens"]),
  limit: count.describe("Units per window, as reported by the service."),
  windowSeconds: count,
});

/** The response of `GET /limits`. */
export const limitsSchema = z.object({
  at: timestamp,
  counters: z.array(counter).describe("Those with the least remaining first; at most `?max=` (1,000)."),
  countersLeftOut: count.describe("Number of open counters that are not listed."),
  state: stateDirectory
    .optional()
    .describe("The directory of `--state-dir`; absent without it: counters start from zero with the process."),
  services: z.array(service).describe("Rate limit services that policies name, by key."),
  learned: z
    .array(learned)
    .describe("Limits that services have reported, enforced while they are unavailable; at most `?max=`."),
});
/** The response of `GET /limits`. */
export type Limits = Immutable<z.output<typeof limitsSchema>>;
/** A counter of a local limit or of a fallback. */
export type LimitCounter = Limits["counters"][number];
/** The state of a rate limit service. */
export type RateLimitService = Limits["services"][number];
/** A limit that a rate limit service has reported. */
export type LearnedLimit = Limits["learned"][number];
