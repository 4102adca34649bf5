/**
 * `GET /limits/decisions?id=<x-request-id>`: why a request was refused. Each worker remembers its last 1,024 refusals;
 * without `id` the answer holds all of them, the newest first.
 */
import * as z from "zod";
import { limitUnit } from "./limits.ts";
import { count, type Immutable, shownText, timestamp } from "./shape.ts";

const refusal = {
  requestId: z.string().describe("As in `x-request-id` of the answer."),
  at: timestamp,
  worker: z.int().min(1),
  method: z.string(),
  authority: z.string(),
  path: z.string().describe("Without its query."),
  listener: z.string().optional(),
  route: z.string().optional(),
  rule: z.string().optional(),
  policy: z.string().describe("`namespace/name` of the ProxyPolicy that refused."),
  target: z
    .string()
    .describe("`HTTPRoute/namespace/name` or `Gateway/namespace/name`, with `#section` if it names one."),
  remedies: z
    .array(z.string())
    .describe("Who or what can let the next request pass, one sentence each, the first comes by itself."),
};

/** A counter of this replica refused. */
const counted = z.object({
  entry: count.describe("The entry's place in the policy's list, from 0."),
  counts: z.enum(["requests", "tokens"]),
  unit: limitUnit,
  key: shownText.optional().describe("Value of the entry's `key`; absent for the one counter of all."),
  used: count.describe("What the counter stood at; the request was not counted."),
  limit: count.describe("Units at hand when full."),
  windowStart: timestamp,
  windowEnd: timestamp,
});

export const localRefusalSchema = z.object({ kind: z.literal("local"), ...refusal, counter: counted });

export const globalRefusalSchema = z.object({
  kind: z.literal("global"),
  ...refusal,
  by: z
    .enum(["service", "cache", "fallback", "learned", "failureMode"])
    .describe(
      "`service`: its answer to this request; `cache`: an earlier answer that still lasts; `fallback`, `learned`: a counter of this replica while the service is away; `failureMode`: Closed, and the service failed.",
    ),
  service: z.string().describe("Key of the service's backend."),
  domain: z.string(),
  descriptors: z
    .array(
      z.object({
        entries: z.array(z.object({ key: z.string(), value: shownText })),
        code: z.enum(["OK", "OVER_LIMIT", "UNKNOWN"]).optional().describe("What the service said of it."),
        limit: count.optional().describe("Units per window."),
        windowSeconds: count.optional(),
        remaining: count.optional(),
        resetSeconds: count.optional(),
      }),
    )
    .describe("What the service was asked, or was to be asked, and what it said of each."),
  counter: counted.optional().describe("With `by` fallback or learned."),
});

export const decisionSchema = z.discriminatedUnion("kind", [localRefusalSchema, globalRefusalSchema]);
export type Decision = Immutable<z.output<typeof decisionSchema>>;
export type LocalRefusal = Immutable<z.output<typeof localRefusalSchema>>;
export type GlobalRefusal = Immutable<z.output<typeof globalRefusalSchema>>;

export const decisionsSchema = z.object({
  decisions: z.array(decisionSchema).describe("The newest first; empty where the id is not, or no longer, known."),
  remembered: count.describe("Refusals that are remembered now, of all workers."),
  capacity: count.describe("How many can be."),
});
export type Decisions = Immutable<z.output<typeof decisionsSchema>>;
