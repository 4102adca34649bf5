/**
 * `spec.traffic.rateLimit.global` of a ProxyPolicy: limits that a rate limit service counts for all replicas. Read in
 * full, so that a mistake is found early; `translate/policies.ts` says what of it is served.
 */
import * as z from "zod";
import { duration } from "./duration.ts";
import { celExpression } from "./cel.ts";
import { integer, list, maxInt32, namespaceName, objectName, portNumber, strictObject, text } from "./schema.ts";

const descriptor = strictObject({
  unit: z.enum(["Requests", "Tokens"]).default("Requests"),
  entries: list(strictObject({ name: text("a name of 1 to 64 characters", { max: 64 }), expression: celExpression }), {
    min: 1,
    max: 16,
  }),
  // Sees the response's usage as well, which no request expression does; compiled where it is served.
  cost: text("a CEL expression of 1 to 1024 characters", { max: 1024 }).optional(),
  limitOverride: strictObject({
    requestsPerUnit: integer(0, maxInt32),
    unit: z.enum(["Second", "Minute", "Hour", "Day", "Week", "Month", "Year"]),
  }).optional(),
});

/** @param fallback what a `fallback` entry is; the amount that a local entry has too. */
export function globalRateLimit<Fallback extends z.ZodType>(fallback: Fallback) {
  return strictObject({
    backendRef: strictObject({ name: objectName, namespace: namespaceName.optional(), port: portNumber }).optional(),
    address: text("an address such as 127.0.0.1:8081", { max: 261, pattern: /^.+:\d{1,5}$/ }).optional(),
    domain: text("a domain of 1 to 256 characters", { max: 256 }),
    timeout: duration.default("100ms"),
    failureMode: z.enum(["Local", "Open", "Closed"]).default("Local"),
    mode: z.enum(["Enforce", "Shadow"]).default("Enforce"),
    envoyRatelimitedHeader: z.enum(["FromService", "Always"]).default("FromService"),
    descriptors: list(descriptor, { min: 1, max: 16 }),
    fallback: list(fallback, { min: 1, max: 16 }).optional(),
  }).refine(({ backendRef, address }) => (backendRef === undefined) !== (address === undefined), {
    error: "accepted is exactly one of backendRef and address",
  });
}
