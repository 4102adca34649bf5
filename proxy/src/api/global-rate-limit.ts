/**
 * `spec.traffic.rateLimit.global` of a ProxyPolicy: limits that a rate limit service counts for all replicas. A faulty
 * expression is a fault of the policy, so that its last sound version stays in force. In mode Shadow, which denies nothing,
 * it is let through with its faults: the rest is counted without it, and the status says so (`translate/global-limits.ts`).
 */
import * as z from "zod";
import { maxExpressionLength } from "../cel/expression.ts";
import { checkedExpression, checkExpression } from "./cel.ts";
import { duration, durationMs, durationPattern } from "./duration.ts";
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
  publishRules,
  strictObject,
  text,
} from "./schema.ts";

const descriptor = strictObject({
  unit: z
    .enum(["Requests", "Tokens"])
    .default("Requests")
    .describe("What is counted. Tokens are charged when the answer has told its cost."),
  entries: list(
    strictObject({
      name: text("a name of 1 to 64 characters", { max: 64 }).describe(
        "Key of the entry, as the service's configuration names it.",
      ),
      expression: checkedExpression({ phase: "body", gives: "text" }).describe(
        "CEL expression over the request that gives the entry's value. Where it has none, or an empty one, the value is `-`.",
      ),
      ifAbsent: z
        .enum(["Limit", "Skip"])
        .default("Limit")
        .describe(
          "What a request without the header, parameter or claim is: under the limit, with the value `-`, or with Skip not under the limit of this descriptor.",
        ),
    }),
    { min: 1, max: 16 },
  ).describe("Entries of the descriptor, in the order in which the service's configuration nests them."),
  // Of tokens it may ask for the response's usage, of requests it is needed before there is one.
  cost: text(`a CEL expression of 1 to ${maxExpressionLength} characters`, { max: maxExpressionLength })
    .optional()
    .describe("CEL expression for what a request costs. Absent means 1, for Tokens the tokens of the answer."),
  limitOverride: strictObject({
    requestsPerUnit: integer(0, maxInt32).describe("Amount that is admitted in each unit."),
    // The protocol has no week (envoy.type.v3.RateLimitUnit).
    unit: z.enum(["Second", "Minute", "Hour", "Day", "Month", "Year"]).describe("Length of a window."),
  })
    .optional()
    .describe("A limit to apply in place of the one that the service is configured with."),
}).transform(({ cost, ...rest }) => {
  const phase = rest.unit === "Tokens" ? "response" : "body";
  return { ...rest, cost: cost === undefined ? undefined : checkExpression(cost, { phase, gives: "number" }) };
});

/** Where the service is: a Service's port, or a Backend, which may ask for TLS. */
const serviceRef = strictObject({
  group: group.default("").describe("Group of the service: empty for a Service, gatewayproxy.dev for a Backend."),
  kind: kindName.default("Service").describe("Service or Backend."),
  name: objectName.describe("Name of the Service or the Backend."),
  namespace: namespaceName
    .optional()
    .describe("Its namespace. Absent means the policy's own; another needs a ReferenceGrant there."),
  port: portNumber.optional().describe("Port of the Service; a Backend has its own."),
})
  .refine(({ kind, port }) => kind !== "Service" || port !== undefined, {
    path: ["port"],
    error: "missing, required is a port of the Service",
  })
  .meta(
    publishRules({ rule: "self.kind != 'Service' || has(self.port)", message: "required is a port of the Service" }),
  );

const addressPattern = /^(?:\[[0-9a-fA-F:.]+\]|[-A-Za-z0-9._]+):[0-9]{1,5}$/;

/** `host:port`; an IPv6 address in brackets. */
const address = leaf<string>(
  "an address such as 127.0.0.1:8081 or [::1]:8081",
  (value) =>
    typeof value === "string" &&
    value.length <= 261 &&
    addressPattern.test(value) &&
    isPort(Number(value.slice(value.lastIndexOf(":") + 1))),
  {
    type: "string",
    minLength: 1,
    maxLength: 261,
    pattern: addressPattern.source,
    ...publishRules({
      // Evaluated whatever the pattern found.
      rule: "!self.matches(':[0-9]{1,5}$') || (int(self.substring(self.lastIndexOf(':') + 1)) >= 1 && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535)",
      message: "accepted is a port from 1 to 65535",
    }),
  },
);

const timeout = leaf<string>(
  "a duration from 1ms to 60s, such as 100ms",
  (value) => {
    const parsed = duration.safeParse(value);
    return parsed.success && isWithin(durationMs(parsed.data), 1, 60_000);
  },
  {
    type: "string",
    maxLength: 64,
    pattern: durationPattern.source,
    ...publishRules({
      // Evaluated whatever the pattern found; CEL's durations are Go's, of which ours are a part.
      rule: `!self.matches('${durationPattern.source}') || (duration(self) >= duration('1ms') && duration(self) <= duration('60s'))`,
      message: "accepted is a duration from 1ms to 60s",
    }),
  },
);

function isPort(port: number): boolean {
  return isWithin(port, 1, 65_535);
}

function isWithin(value: number, least: number, most: number): boolean {
  return value >= least && value <= most;
}

/** @param fallback what a `fallback` entry is; the amount that a local entry has too. */
export function globalRateLimit<Fallback extends z.ZodType>(fallback: Fallback) {
  return strictObject({
    backendRef: serviceRef
      .optional()
      .describe(
        "The rate limit service: a Service's port, or a Backend. Exactly one of backendRef and address is set.",
      ),
    address: address.optional().describe("Address of the rate limit service as host:port."),
    domain: text("a domain of 1 to 256 characters", { max: 256 }).describe(
      "Domain of the descriptors, as the service's configuration names it.",
    ),
    timeout: timeout
      .default("100ms")
      .transform(durationMs)
      .describe("How long a request waits for the service at most; then failureMode decides. From 1ms to 60s."),
    failureMode: z
      .enum(["Local", "Open", "Closed"])
      .default("Local")
      .describe(
        "Who decides while the service is away. Local: counters of each replica, by `fallback` or by what the service reported last. Open admits, Closed refuses every request.",
      ),
    mode: z
      .enum(["Enforce", "Shadow"])
      .default("Enforce")
      .describe("Enforce refuses what is over the limit with 429. Shadow only counts, logs and measures."),
    envoyRatelimitedHeader: z
      .enum(["FromService", "Always"])
      .default("Always")
      .describe(
        "Whether a 429 that the service decides carries x-envoy-ratelimited: always, as behind Envoy, or only if the service sends it. No other response carries it.",
      ),
    hitsMode: z
      .enum(["Descriptor", "Request", "Kuadrant"])
      .default("Descriptor")
      .describe(
        "Where the service reads a descriptor's cost: in the descriptor itself, as Envoy's does, in the call, or in calls of their own as Kuadrant's does.",
      ),
    descriptors: list(descriptor, { min: 1, max: 16 }).describe("What is counted, for each request."),
    fallback: list(fallback, { min: 1, max: 16 })
      .optional()
      .describe("Limits of each replica that failureMode Local applies while the service is away."),
  })
    .refine(({ backendRef, address }) => (backendRef === undefined) !== (address === undefined), {
      error: "accepted is exactly one of backendRef and address",
    })
    .superRefine(refuseFaultyExpressions)
    .meta(
      publishRules({
        rule: "has(self.backendRef) != has(self.address)",
        message: "accepted is exactly one of backendRef and address",
      }),
    );
}

interface Descriptors {
  readonly mode: "Enforce" | "Shadow";
  readonly descriptors: readonly z.output<typeof descriptor>[];
}

/** A request must pass every descriptor, so a faulty one is a fault of the whole policy; in mode Shadow none denies. */
function refuseFaultyExpressions({ mode, descriptors }: Descriptors, context: z.core.$RefinementCtx): void {
  if (mode === "Shadow") return;
  descriptors.forEach(({ entries, cost }, index) => {
    const find = (faults: readonly string[], ...path: readonly (string | number)[]): void => {
      for (const message of faults)
        context.addIssue({ code: "custom", path: ["descriptors", index, ...path], message });
    };
    entries.forEach(({ expression }, place) => find(expression.faults, "entries", place, "expression"));
    find(cost?.faults ?? [], "cost");
  });
}
