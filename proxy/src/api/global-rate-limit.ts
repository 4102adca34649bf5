/**
 * `spec.traffic.rateLimit.global` of a ProxyPolicy: limits that a rate limit service counts for all replicas. An
 * expression that is wrong is let through with its faults: the rest of the policy is served without it, and its status
 * says so (`translate/global-limits.ts`).
 */
import * as z from "zod";
import { maxExpressionLength } from "../cel/expression.ts";
import { checkedExpression, checkExpression } from "./cel.ts";
import { duration, durationMs } from "./duration.ts";
import {
  group,
  integer,
  kindName,
  leaf,
  list,
  maxInt32,
  namespaceName,
  objectName,
  portNumber,
  strictObject,
  text,
} from "./schema.ts";

const descriptor = strictObject({
  unit: z.enum(["Requests", "Tokens"]).default("Requests"),
  entries: list(
    strictObject({
      name: text("a name of 1 to 64 characters", { max: 64 }),
      expression: checkedExpression({ phase: "body", gives: "text" }),
    }),
    { min: 1, max: 16 },
  ),
  // Of tokens it may ask for the response's usage, of requests it is needed before there is one.
  cost: text(`a CEL expression of 1 to ${maxExpressionLength} characters`, { max: maxExpressionLength }).optional(),
  limitOverride: strictObject({
    requestsPerUnit: integer(0, maxInt32),
    // The protocol has no week (envoy.type.v3.RateLimitUnit).
    unit: z.enum(["Second", "Minute", "Hour", "Day", "Month", "Year"]),
  }).optional(),
}).transform(({ cost, ...rest }) => {
  const phase = rest.unit === "Tokens" ? "response" : "body";
  return { ...rest, cost: cost === undefined ? undefined : checkExpression(cost, { phase, gives: "number" }) };
});

/** Where the service is: a Service's port, or a Backend, which may ask for TLS. */
const serviceRef = strictObject({
  group: group.default(""),
  kind: kindName.default("Service"),
  name: objectName,
  namespace: namespaceName.optional(),
  port: portNumber.optional(),
}).refine(({ kind, port }) => kind !== "Service" || port !== undefined, {
  path: ["port"],
  error: "missing, required is a port of the Service",
});

/** `host:port`; an IPv6 address in brackets. */
const address = leaf<string>(
  "an address such as 127.0.0.1:8081 or [::1]:8081",
  (value) =>
    typeof value === "string" &&
    value.length <= 261 &&
    /^(?:\[[0-9a-fA-F:.]+\]|[-A-Za-z0-9._]+):\d{1,5}$/.test(value) &&
    isPort(Number(value.slice(value.lastIndexOf(":") + 1))),
);

const timeout = leaf<string>("a duration from 1ms to 60s, such as 100ms", (value) => {
  const parsed = duration.safeParse(value);
  return parsed.success && isWithin(durationMs(parsed.data), 1, 60_000);
});

function isPort(port: number): boolean {
  return isWithin(port, 1, 65_535);
}

function isWithin(value: number, least: number, most: number): boolean {
  return value >= least && value <= most;
}

/** @param fallback what a `fallback` entry is; the amount that a local entry has too. */
export function globalRateLimit<Fallback extends z.ZodType>(fallback: Fallback) {
  return strictObject({
    backendRef: serviceRef.optional(),
    address: address.optional(),
    domain: text("a domain of 1 to 256 characters", { max: 256 }),
    timeout: timeout.default("100ms").transform(durationMs),
    failureMode: z.enum(["Local", "Open", "Closed"]).default("Local"),
    mode: z.enum(["Enforce", "Shadow"]).default("Enforce"),
    envoyRatelimitedHeader: z.enum(["FromService", "Always"]).default("FromService"),
    hitsMode: z.enum(["Descriptor", "Request", "Kuadrant"]).default("Descriptor"),
    descriptors: list(descriptor, { min: 1, max: 16 }),
    fallback: list(fallback, { min: 1, max: 16 }).optional(),
  }).refine(({ backendRef, address }) => (backendRef === undefined) !== (address === undefined), {
    error: "accepted is exactly one of backendRef and address",
  });
}
