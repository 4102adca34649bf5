/**
 * `spec.traffic.rateLimit.global` of a ProxyPolicy: limits that a rate limit service counts for all replicas. An
 * invalid expression makes the whole policy invalid, so its last valid version stays in force. In mode Shadow, which
 * denies nothing, the expression is left out instead, and the status reports it (`translate/policy/global-limits.ts`).
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
  maxUint32,
  namespaceName,
  objectName,
  portNumber,
  publishRules,
  strictObject,
  text,
} from "./schema.ts";

/** A number of a `uint32`, or an expression. */
const amountOrExpression = leaf<number | string>(
  `an integer from 0 to ${maxUint32}, or a CEL expression of 1 to ${maxExpressionLength} characters`,
  (value) => amount.safeParse(value).success || expressionText.safeParse(value).success,
  {
    ...{ "x-kubernetes-int-or-string": true, minimum: 0, maximum: maxUint32 },
    ...{ minLength: 1, maxLength: maxExpressionLength },
  },
);

const amount = integer(0, maxUint32);
const expressionText = text(`a CEL expression of 1 to ${maxExpressionLength} characters`, { max: maxExpressionLength });

const reserveNeedsTokens = "reserve is accepted together with unit Tokens only";

const descriptor = strictObject({
  unit: z
    .enum(["Requests", "Tokens"])
    .default("Requests")
    .describe("Unit that is counted. Tokens are charged when the response reports its usage."),
  entries: list(
    strictObject({
      name: text("a name of 1 to 64 characters", { max: 64 }).describe(
        "Key of the entry, as in the configuration of the rate limit service.",
      ),
      expression: checkedExpression({ phase: "body", result: "text" }).describe(
        "CEL expression over the request that yields the value of the entry. An absent or empty value is sent as `-`.",
      ),
      ifAbsent: z
        .enum(["Limit", "Skip"])
        .default("Limit")
        .describe(
          "How to treat a request that lacks the header, query parameter or claim. Limit counts it with the value `-`. Skip leaves out this descriptor.",
        ),
    }),
    { min: 1, max: 16 },
  ).describe(
    "Entries of the descriptor, in the order in which the configuration of the rate limit service nests them.",
  ),
  when: checkedExpression({ phase: "body", result: "condition" })
    .optional()
    .describe(
      "CEL condition over the request. The descriptor is left out of a request for which the value is false, so it also applies to a request for which the expression has no value. Without it, the descriptor applies to every request.",
    ),
  // For Tokens the expression may use the response; for Requests it is evaluated before there is one.
  cost: expressionText
    .optional()
    .describe(
      "CEL expression for the cost of a request. Defaults to 1 for Requests, and to the tokens of the response for Tokens.",
    ),
  limitOverride: strictObject({
    requestsPerUnit: amountOrExpression.describe(
      "Amount that is allowed in each unit: a number, or a CEL expression over the request. Fractions are rounded down. A value below 0 or above 4294967295 counts as none.",
    ),
    default: amount
      .optional()
      .describe(
        "Amount for a request for which the expression in requestsPerUnit has no value. Without it, the limit in the configuration of the rate limit service applies to such a request. Not accepted if requestsPerUnit is a number.",
      ),
    // The protocol has no week (envoy.type.v3.RateLimitUnit).
    unit: z.enum(["Second", "Minute", "Hour", "Day", "Month", "Year"]).describe("Length of the window."),
  })
    .refine((override) => override.default === undefined || typeof override.requestsPerUnit === "string", {
      path: ["default"],
      error: "default is accepted together with an expression in requestsPerUnit only",
    })
    .meta(
      publishRules({
        rule: "!has(self.default) || type(self.requestsPerUnit) == string",
        message: "default is accepted together with an expression in requestsPerUnit only",
      }),
    )
    .transform(readOverride)
    .optional()
    .describe("Limit that replaces the one in the configuration of the rate limit service."),
  reserve: z
    .enum(["Estimate"])
    .optional()
    .describe(
      "Estimate: the check counts what the request may cost, its prompt and the output that it allows or that the model usually has, and the charge replaces it by the usage of the response. The bundled rate limit service refunds what the response did not use. Other services keep it counted until the window ends. Accepted together with Tokens only. Without it, requests are allowed while any units remain.",
    ),
})
  .refine(({ unit, reserve }) => reserve === undefined || unit === "Tokens", {
    path: ["reserve"],
    error: reserveNeedsTokens,
  })
  .meta(publishRules({ rule: "!has(self.reserve) || self.unit == 'Tokens'", message: reserveNeedsTokens }))
  .transform(({ cost, ...rest }) => {
    const phase = rest.unit === "Tokens" ? "response" : "body";
    return { ...rest, cost: cost === undefined ? undefined : checkExpression(cost, { phase, result: "number" }) };
  });

/** Separates the forms of an override: a number, or an expression with the number for requests without a value. */
function readOverride({ requestsPerUnit, default: otherwise, unit }: OverrideFields) {
  return typeof requestsPerUnit === "number"
    ? { unit, requestsPerUnit, expression: undefined }
    : {
        unit,
        requestsPerUnit: otherwise,
        expression: checkExpression(requestsPerUnit, { phase: "body", result: "number" }),
      };
}

interface OverrideFields {
  readonly requestsPerUnit: number | string;
  readonly default?: number | undefined;
  readonly unit: "Second" | "Minute" | "Hour" | "Day" | "Month" | "Year";
}

/** A reference to the rate limit service: a port of a Service, or a Backend, which may configure TLS. */
const serviceRef = strictObject({
  group: group.default("").describe("API group: empty for a Service, gatewayproxy.dev for a Backend."),
  kind: kindName.default("Service").describe("Service or Backend."),
  name: objectName.describe("Name of the Service or the Backend."),
  namespace: namespaceName
    .optional()
    .describe(
      "Namespace of the Service or Backend. Defaults to the namespace of the policy. Another namespace requires a ReferenceGrant in it.",
    ),
  port: portNumber.optional().describe("Port of the Service. Required for a Service; a Backend has a port of its own."),
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
      // The API server evaluates the rule even where the pattern does not match.
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
      // The API server evaluates the rule even where the pattern does not match. CEL accepts Go's durations, a
      // superset.
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

/**
 * Builds the schema.
 *
 * @param fallback the schema of the `fallback` entries.
 */
export function globalRateLimit<Fallback extends z.ZodType>(fallback: Fallback) {
  return strictObject({
    backendRef: serviceRef
      .optional()
      .describe(
        "Reference to the rate limit service: a port of a Service, or a Backend. Exactly one of backendRef and address must be set.",
      ),
    address: address
      .optional()
      .describe("Address of the rate limit service as host:port. Exactly one of backendRef and address must be set."),
    domain: text("a domain of 1 to 256 characters", { max: 256 }).describe(
      "Domain of the descriptors, as in the configuration of the rate limit service.",
    ),
    timeout: timeout
      .default("100ms")
      .transform(durationMs)
      .describe(
        "Longest time that a request waits for the rate limit service, from 1ms to 60s. After it, failureMode decides.",
      ),
    failureMode: z
      .enum(["Local", "Open", "Closed"])
      .default("Local")
      .describe(
        "What decides while the rate limit service is unavailable. Local counts in each replica, with the limits of `fallback` or those that the service last reported. Open allows every request. Closed rejects every request with 503.",
      ),
    mode: z
      .enum(["Enforce", "Shadow"])
      .default("Enforce")
      .describe("Enforce denies requests over the limit with 429. Shadow counts and reports them, but denies nothing."),
    envoyRatelimitedHeader: z
      .enum(["FromService", "Always"])
      .default("Always")
      .describe(
        "Whether a 429 that the rate limit service decides has the header x-envoy-ratelimited. Always adds it, as Envoy does. FromService passes it only if the service sends it. No other response has the header.",
      ),
    hitsMode: z
      .enum(["Descriptor", "Request", "Kuadrant"])
      .default("Descriptor")
      .describe(
        "Where the rate limit service reads the cost of a descriptor. Descriptor: in hits_addend of each descriptor, as the Envoy rate limit service does. Request: in hits_addend of the call. Kuadrant: in the separate methods of Kuadrant's Limitador.",
      ),
    descriptors: list(descriptor, { min: 1, max: 16 }).describe(
      "Descriptors to send for each request. A request must be allowed by all of them.",
    ),
    fallback: fallback
      .optional()
      .describe("Limits of each replica that failureMode Local applies while the rate limit service is unavailable."),
  })
    .refine(({ backendRef, address }) => (backendRef === undefined) !== (address === undefined), {
      error: "accepted is exactly one of backendRef and address",
    })
    .superRefine(rejectInvalidExpressions)
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

/**
 * Rejects invalid expressions. A request must pass every descriptor, so an invalid one makes the whole policy invalid.
 * In mode Shadow nothing is denied, and the descriptor is left out.
 */
function rejectInvalidExpressions({ mode, descriptors }: Descriptors, context: z.core.$RefinementCtx): void {
  if (mode === "Shadow") return;
  descriptors.forEach(({ entries, when, cost, limitOverride }, index) => {
    const report = (errors: readonly string[], ...path: readonly (string | number)[]): void => {
      for (const message of errors) {
        context.addIssue({ code: "custom", path: ["descriptors", index, ...path], message });
      }
    };
    entries.forEach(({ expression }, entry) => report(expression.errors, "entries", entry, "expression"));
    report(when?.errors ?? [], "when");
    report(cost?.errors ?? [], "cost");
    report(limitOverride?.expression?.errors ?? [], "limitOverride", "requestsPerUnit");
  });
}
