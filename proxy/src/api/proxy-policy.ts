/**
 * ProxyPolicy (gatewayproxy.dev/v1alpha1): limits on the traffic of routes and Gateways. The parser accepts and rejects
 * the same objects as the CRD.
 */
import { calendarUnits, isTimeZone } from "@gatewayproxy/runtime/calendar";
import { microUnitsOf } from "@gatewayproxy/runtime/money";
import { routeKinds } from "@gatewayproxy/runtime/route-key";
import * as z from "zod";
import { maxExpressionLength } from "../cel/expression.ts";
import { type AuthenticationSpec, authentication } from "./authentication.ts";
import { celExpression, checkExpression } from "./cel.ts";
import { globalRateLimit } from "./global-rate-limit.ts";
import { deniedResponse, headerFamilies } from "./limit-response.ts";
import { namespacedMetadata, strictResource } from "./metadata.ts";
import { gatewayGroup, proxyGroup } from "./names.ts";
import {
  type Immutable,
  integer,
  leaf,
  list,
  maxInt32,
  objectName,
  publishRules,
  sectionName,
  strictObject,
  text,
} from "./schema.ts";
import { usageChunk, usageChunkMeaning } from "./usage-chunk.ts";

const targetRef = strictObject({
  group: z.literal(gatewayGroup).describe("Group of the target."),
  kind: z.enum([...routeKinds, "Gateway"]).describe("Kind of the target."),
  name: objectName.describe("Name of the target, in the namespace of the policy."),
  sectionName: sectionName
    .optional()
    .describe(
      "Name of a rule of the route, or of a listener of the Gateway. Without it, the policy applies to the whole target.",
    ),
});

const targetRefs = list(targetRef, { min: 1, max: 16 })
  .superRefine((refs, context) => {
    const seen = new Set<string>();
    refs.forEach(({ kind, name, sectionName }, index) => {
      const target = `${kind} ${name}${sectionName === undefined ? "" : `, section ${sectionName}`}`;
      if (seen.has(target)) {
        context.addIssue({ code: "custom", path: [index], message: `${target} is named twice` });
      }
      seen.add(target);
    });
  })
  .meta(
    publishRules({
      rule: "self.all(a, self.exists_one(b, a.kind == b.kind && a.name == b.name && (has(a.sectionName) ? has(b.sectionName) && a.sectionName == b.sectionName : !has(b.sectionName))))",
      message: "a target is named twice",
    }),
  );

const entryName = text("a name of lower case letters, digits and '-', a letter first, at most 63", {
  max: 63,
  pattern: /^[a-z]([-a-z0-9]*[a-z0-9])?$/,
});

const units = ["Seconds", "Minutes", "Hours", "Days", "Weeks", "Months"] as const;

/** The names are compared exactly, as Kubernetes does it. */
const timeZone = leaf<string>(
  "a time zone of the IANA database, such as Europe/Berlin",
  (value) => typeof value === "string" && isTimeZone(value),
  {
    type: "string",
    minLength: 1,
    maxLength: 64,
    pattern: "^[A-Za-z]",
    ...publishRules({
      // Fails for a name that the API server does not know.
      rule: "self != 'Local' && timestamp('2000-01-01T00:00:00Z').getHours(self) >= 0",
      message: "accepted is a time zone of the IANA database, such as Europe/Berlin",
    }),
  },
);

const spendPattern = /^(0|[1-9][0-9]{0,8})([.][0-9]{1,6})?$/;
/** As `maxSpend` of sliding windows. */
const maxSlidingSpend = "4294.967295";

const spend = leaf<string>(
  'an amount above 0 of at most 9 digits before and 6 after the point, as text such as "25.00"',
  (value) => typeof value === "string" && spendPattern.test(value) && microUnitsOf(value) > 0,
  {
    type: "string",
    minLength: 1,
    maxLength: 16,
    pattern: spendPattern.source,
    ...publishRules({
      // The API server evaluates the rule even where the pattern does not match.
      rule: `!self.matches('${spendPattern.source}') || double(self) > 0.0`,
      message: "accepted is an amount above 0",
    }),
  },
);

/** The fields of an entry of `local` and of `global.fallback`. */
const entryFields = {
  name: entryName
    .optional()
    .describe("Name of the entry in logs, metrics and decisions, unique in its list. Defaults to its index."),
  requests: integer(1, maxInt32)
    .optional()
    .describe(
      "Requests that are allowed in each window. Exactly one amount must be set: requests, tokens, spend, concurrent, or connections in local.",
    ),
  tokens: integer(1, maxInt32)
    .optional()
    .describe(
      "LLM tokens that are allowed in each window: input and output together, as the provider reports them. Requests are allowed while any tokens remain, and each is charged when its response reports its usage. Exactly one amount must be set: requests, tokens, spend, concurrent, or connections in local.",
    ),
  spend: spend
    .optional()
    .describe(
      "Money that responses may cost in each window, by the `prices` of the Backends: a decimal number as text, in their currency. At most 999999999.999999, and 4294.967295 with window Sliding. Requests are allowed while any of it remains, and each is charged when its response reports its usage. Exactly one amount must be set: requests, tokens, spend, concurrent, or connections in local.",
    ),
  unpriced: z
    .enum(["Refuse", "Allow"])
    .optional()
    .describe(
      "Whether requests for models without a price are allowed; they cost nothing. Refuse rejects them with 403. Accepted together with spend only. Defaults to Refuse.",
    ),
  concurrent: integer(1, maxInt32)
    .optional()
    .describe(
      "Requests that may be in progress at once, each from its start to the last byte of its response. They have no window, so unit, every, window, timeZone, burst and cost are not accepted. Exactly one amount must be set: requests, tokens, spend, concurrent, or connections in local.",
    ),
  unit: z
    .enum(units)
    .optional()
    .describe(
      "Unit of the length of the window, required with requests, tokens and spend. Without Calendar a day lasts 24 hours and a week 7 days, and Months are not accepted.",
    ),
  every: integer(1, 1_000)
    .optional()
    .describe("Length of the window in units. Defaults to 1. Three calendar months are a quarter."),
  window: z
    .enum(["Fixed", "Sliding", "Calendar"])
    .optional()
    .describe(
      "How windows follow one another. Fixed, the default: the first request that is counted starts a window. Sliding: each request counts for one window from its time on, so that no span of that length has more than the limit; requests count by parts of a 60th of the window. Calendar: windows begin with days, weeks (on Monday) or months.",
    ),
  timeZone: timeZone
    .optional()
    .describe(
      "Time zone of calendar windows, a name of the IANA database such as Europe/Berlin. Changes of daylight saving time make a window longer or shorter. Defaults to UTC.",
    ),
  burst: integer(0, maxInt32)
    .optional()
    .describe(
      "Requests that are allowed in addition to `requests`. The burst starts full, and unused requests of a window refill it. Only valid together with requests.",
    ),
  key: celExpression({ phase: "body", result: "text" })
    .optional()
    .describe(
      "CEL expression over the request. Each distinct value has its own counter, and requests without a value share one. Without it, one counter counts all requests.",
    ),
  when: celExpression({ phase: "body", result: "condition" })
    .optional()
    .describe(
      "CEL condition over the request. The entry applies unless the value is false, so also to a request for which the expression has no value. Without it, the entry applies to every request.",
    ),
  limit: celExpression({ phase: "body", result: "number" })
    .optional()
    .describe(
      "CEL expression over the request for the amount of a window, in place of the number in requests, tokens or spend. The number applies where the expression has no value or a negative one. Fractions are rounded down, and 0 allows nothing. Not accepted together with burst.",
    ),
  // For tokens the expression may use the response; for requests it is evaluated before there is one.
  cost: text(`a CEL expression of 1 to ${maxExpressionLength} characters`, { max: maxExpressionLength })
    .optional()
    .describe(
      "CEL expression for the units that a request costs: over the request if requests are counted, over the request and its response if tokens or spend are counted. Spend is in millionths of the currency, as `llm.cost`. Fractions are rounded up. Without a value or with a negative one, the cost is 1 request, all tokens, or `llm.cost`.",
    ),
  reserve: z
    .enum(["Estimate"])
    .optional()
    .describe(
      "Estimate: before the response, the request holds what it may cost: its prompt, and the output that it allows or that the model usually has. It is allowed only where that fits, or where the window has no units counted. The usage of the response replaces the hold. Accepted together with tokens and spend only. Without it, requests are allowed while any units remain.",
    ),
  bucket: entryName
    .optional()
    .describe(
      "Name of a counter that all entries of this name in the namespace share, of any policy and target. Their unit, every, and whether they count requests, tokens or spend must be the same. A request counts once in it. Not accepted together with burst.",
    ),
  shareAcrossReplicas: z
    .boolean()
    .default(false)
    .describe(
      "Whether the amounts are for all replicas together. Each replica then counts with an equal share, rounded down to at least 1.",
    ),
};

const fallbackRules = [
  {
    rule: "[has(self.requests), has(self.tokens), has(self.spend), has(self.concurrent)].exists_one(isSet, isSet)",
    message: "accepted is exactly one of requests, tokens, spend and concurrent",
  },
  { rule: "has(self.unit) != has(self.concurrent)", message: "unit is required with all but concurrent" },
];

const localRules = [
  {
    rule: "[has(self.requests), has(self.tokens), has(self.spend), has(self.concurrent), has(self.connections)].exists_one(isSet, isSet)",
    message: "accepted is exactly one of requests, tokens, spend, concurrent and connections",
  },
  {
    rule: "has(self.unit) != (has(self.concurrent) || has(self.connections))",
    message: "unit is required with all but concurrent and connections",
  },
  {
    rule: "!has(self.connections) || !(has(self.every) || has(self.window) || has(self.timeZone) || has(self.cost) || has(self.limit))",
    message: "every, window, timeZone, cost and limit are not accepted together with connections",
  },
];

const entryRules = [
  {
    rule: "!has(self.concurrent) || !(has(self.every) || has(self.window) || has(self.timeZone) || has(self.cost))",
    message: "every, window, timeZone and cost are not accepted together with concurrent",
  },
  { rule: "!has(self.burst) || has(self.requests)", message: "burst is accepted together with requests only" },
  {
    rule: "!has(self.burst) || !(has(self.limit) || has(self.bucket))",
    message: "burst is not accepted together with limit or bucket",
  },
  {
    rule: "!has(self.burst) || !has(self.window) || self.window == 'Fixed'",
    message: "burst is accepted with fixed windows only",
  },
  {
    rule: "has(self.window) && self.window == 'Calendar' ? has(self.unit) && self.unit in ['Days', 'Weeks', 'Months'] : !has(self.unit) || self.unit != 'Months'",
    message: "accepted are Days, Weeks and Months with window Calendar, and all but Months without it",
  },
  {
    rule: "!has(self.reserve) || has(self.tokens) || has(self.spend)",
    message: "reserve is accepted together with tokens and spend only",
  },
  { rule: "!has(self.unpriced) || has(self.spend)", message: "unpriced is accepted together with spend only" },
  {
    rule: `!has(self.spend) || !has(self.window) || self.window != 'Sliding' || !self.spend.matches('${spendPattern.source}') || double(self.spend) <= ${maxSlidingSpend}`,
    message: `accepted is at most ${maxSlidingSpend} with window Sliding`,
  },
  {
    rule: "!has(self.timeZone) || has(self.window) && self.window == 'Calendar'",
    message: "timeZone is accepted with window Calendar only",
  },
];

interface EntryFields {
  readonly requests?: number | undefined;
  readonly tokens?: number | undefined;
  readonly concurrent?: number | undefined;
  /** Only in `local`. */
  readonly connections?: number | undefined;
  readonly spend?: string | undefined;
  readonly unpriced?: string | undefined;
  readonly reserve?: string | undefined;
  readonly every?: number | undefined;
  readonly burst?: number | undefined;
  readonly limit?: string | undefined;
  readonly bucket?: string | undefined;
  readonly key?: string | undefined;
  readonly when?: string | undefined;
  readonly cost?: string | undefined;
  readonly unit?: string | undefined;
  readonly window?: "Fixed" | "Sliding" | "Calendar" | undefined;
  readonly timeZone?: string | undefined;
}

/** The amounts of which an entry has exactly one. */
const fallbackAmounts = ["requests", "tokens", "spend", "concurrent"] as const;
const localAmounts = [...fallbackAmounts, "connections"] as const;

const checkLocalEntry = (entry: EntryFields, context: z.core.$RefinementCtx) =>
  checkEntry(entry, localAmounts, context);
const checkFallbackEntry = (entry: EntryFields, context: z.core.$RefinementCtx) =>
  checkEntry(entry, fallbackAmounts, context);

function checkEntry(
  entry: EntryFields,
  accepted: readonly (typeof localAmounts)[number][],
  context: z.core.$RefinementCtx,
): void {
  const report = (message: string, ...path: readonly string[]): void => {
    context.addIssue({ code: "custom", path: [...path], message });
  };
  const { requests, tokens, concurrent, connections, spend: money, burst, limit, bucket, cost } = entry;
  const amounts = accepted.filter((name) => entry[name] !== undefined);
  if (amounts.length !== 1) {
    const found = amounts.length === 0 ? "none" : amounts.join(" and ");
    const names = `${accepted.slice(0, -1).join(", ")} and ${accepted.at(-1) ?? ""}`;
    report(`found ${found}, accepted is exactly one of ${names}`);
    return;
  }
  if (requests === undefined && burst !== undefined) {
    report("burst is accepted together with requests only", "burst");
  }
  if (entry.unpriced !== undefined && money === undefined) {
    report("unpriced is accepted together with spend only", "unpriced");
  }
  if (entry.reserve !== undefined && (tokens ?? money) === undefined) {
    report("reserve is accepted together with tokens and spend only", "reserve");
  }
  if (burst !== undefined && (limit ?? bucket) !== undefined) {
    report("burst is not accepted together with limit or bucket", "burst");
  }
  if (connections !== undefined) {
    checkConnections(entry, report);
    return;
  }
  if (concurrent === undefined) checkWindow(entry, report);
  else checkConcurrent(entry, report);
  if (cost === undefined || concurrent !== undefined) return;
  const phase = (tokens ?? money) === undefined ? "body" : "response";
  for (const message of checkExpression(cost, { phase, result: "number" }).errors) report(message, "cost");
}

type Report = (message: string, ...path: readonly string[]) => void;

function checkConcurrent({ unit, every, window, timeZone: zone, cost }: EntryFields, report: Report): void {
  for (const [field, value] of Object.entries({ unit, every, window, timeZone: zone, cost })) {
    if (value !== undefined) report(`${field} is not accepted together with concurrent`, field);
  }
}

/** Connections have no window, and no request that an expression could read. */
function checkConnections(entry: EntryFields, report: Report): void {
  const { unit, every, window, timeZone: zone, cost, limit, key, when } = entry;
  for (const [field, value] of Object.entries({ unit, every, window, timeZone: zone, cost, limit })) {
    if (value !== undefined) report(`${field} is not accepted together with connections`, field);
  }
  const check = (field: string, source: string | undefined, result: "text" | "condition"): void => {
    if (source === undefined) return;
    for (const message of checkExpression(source, { phase: "connection", result }).errors) report(message, field);
  };
  check("key", key, "text");
  check("when", when, "condition");
}

function checkWindow(
  { unit, window = "Fixed", timeZone: zone, burst, spend: money }: EntryFields,
  report: Report,
): void {
  if (money !== undefined && window === "Sliding" && microUnitsOf(money) > microUnitsOf(maxSlidingSpend)) {
    report(`found ${money}, accepted is at most ${maxSlidingSpend} with window Sliding`, "spend");
  }
  if (unit === undefined) {
    report(`missing, required is one of ${units.map((each) => JSON.stringify(each)).join(", ")}`, "unit");
    return;
  }
  if (burst !== undefined && window !== "Fixed") report("burst is accepted with fixed windows only", "burst");
  if (window === "Calendar" ? !isCalendarUnit(unit) : unit === "Months") {
    const accepted = window === "Calendar" ? calendarUnits.join(", ") : "Months only with window Calendar";
    report(`found ${unit} with window ${window}, accepted is ${accepted}`, "unit");
  }
  if (zone !== undefined && window !== "Calendar") report("timeZone is accepted with window Calendar only", "timeZone");
}

function isCalendarUnit(unit: string): boolean {
  return calendarUnits.some((each) => each === unit);
}

const localEntry = strictObject({
  ...entryFields,
  connections: integer(1, maxInt32)
    .optional()
    .describe(
      "Connections of TLSRoutes and TCPRoutes, and sessions of UDPRoutes, that may be open at once. Further ones are closed. They have no window, so unit, every, window, timeZone, burst, limit and cost are not accepted, and key and when can read source.address, source.exactAddress, tls.serverName, route and gateway. Exactly one amount must be set: requests, tokens, spend, concurrent, or connections in local.",
    ),
  mode: z
    .enum(["Enforce", "Shadow"])
    .default("Enforce")
    .describe("Enforce denies requests over the limit with 429. Shadow counts and reports them, but denies nothing."),
})
  .superRefine(checkLocalEntry)
  .meta(publishRules(...localRules, ...entryRules));

const fallbackEntry = strictObject(entryFields)
  .superRefine(checkFallbackEntry)
  .meta(publishRules(...fallbackRules, ...entryRules));

/** Returns what an entry counts. The parser accepts exactly one of the fields. */
export function countsOf({
  tokens,
  concurrent,
  connections,
  spend: money,
}: Pick<EntryFields, "tokens" | "concurrent" | "connections" | "spend">): (typeof localAmounts)[number] {
  if (tokens !== undefined) return "tokens";
  if (money !== undefined) return "spend";
  if (connections !== undefined) return "connections";
  return concurrent === undefined ? "requests" : "concurrent";
}

/** Returns the amount of an entry in units of what it counts: those of `spend` are millionths of the currency. */
export function amountOf({
  requests,
  tokens,
  concurrent,
  connections,
  spend: money,
}: Partial<Pick<EntryFields, "requests" | "tokens" | "concurrent" | "connections" | "spend">>): number {
  // The parser accepts exactly one of them.
  return requests ?? tokens ?? concurrent ?? connections ?? (money === undefined ? 1 : microUnitsOf(money));
}

/** Returns the schema of a list of entries in which no name occurs twice. */
function entryList<Entry extends z.ZodType<{ readonly name?: string | undefined }>>(entry: Entry) {
  return list(entry, { min: 1, max: 16 })
    .superRefine((entries, context) => {
      const seen = new Set<string>();
      entries.forEach(({ name }, index) => {
        if (name === undefined) return;
        if (seen.has(name)) {
          context.addIssue({ code: "custom", path: [index, "name"], message: `name ${name} is used twice` });
        }
        seen.add(name);
      });
    })
    .meta(
      publishRules({
        rule: "self.all(a, !has(a.name) || self.exists_one(b, has(b.name) && a.name == b.name))",
        message: "a name is used twice",
      }),
    );
}

const refundCause = z.enum(["ConnectFailure", "Overload", "Reset", "Timeout", "BackendError"]);

const rateLimit = strictObject({
  local: entryList(localEntry)
    .optional()
    .describe(
      "Limits that each replica counts by itself. A request must be allowed by all of them; a denied request counts against none.",
    ),
  global: globalRateLimit(entryList(fallbackEntry))
    .optional()
    .describe("Limits that a rate limit service counts for all replicas."),
  refundOn: list(refundCause, { min: 0, max: 5 })
    .optional()
    .describe(
      "Failures that refund a request, for limits in local and fallback. ConnectFailure: there is no endpoint, or no connection to it. Overload: no connection became free. In both cases no backend has received the request, and they are the default. Reset: the backend reset the stream or connection before its response. Timeout: a timeout expired. BackendError: the backend sent a 5xx response. A client that can cause one of the last three is not limited while it is listed. A rate limit service refunds nothing.",
    ),
  usageChunk: usageChunk
    .optional()
    .describe(
      `${usageChunkMeaning} Of several policies, the most specific one decides. Defaults to the value of the Backend, or to Merge.`,
    ),
  headers: headerFamilies
    .optional()
    .describe(
      "Families of response headers with the state of the limits of the policy. XRateLimit: x-ratelimit-limit, -remaining and -reset of the limit nearest to exhaustion. Ietf: RateLimit and RateLimit-Policy with one item for each entry. OpenAI: x-ratelimit-limit-requests, -limit-tokens and the same for remaining and reset. An empty list sends none. Defaults to XRateLimit.",
    ),
  denied: deniedResponse
    .optional()
    .describe("Response to a request that an entry of the policy denies. Defaults to plain text with status 429."),
})
  .refine(({ local, global }) => local !== undefined || global !== undefined, {
    error: "found neither, required is local or global",
  })
  .meta(publishRules({ rule: "has(self.local) || has(self.global)", message: "required is local or global" }))
  .transform(({ local = [], global, ...rest }) => ({ local, global, ...rest }));

/** What a policy without `rateLimit` limits. */
export const noRateLimit: z.output<typeof rateLimit> = {
  local: [],
  global: undefined,
  refundOn: undefined,
  usageChunk: undefined,
  headers: undefined,
  denied: undefined,
};

const traffic = strictObject({
  authentication: authentication
    .optional()
    .describe(
      "Who the client is. Every authentication of the Gateway, the listener, the route and the rule must accept a request; it comes before the limits.",
    ),
  rateLimit: rateLimit.optional().describe("Rate limits of the targets. At least one of local and global is required."),
})
  .refine((found) => found.authentication !== undefined || found.rateLimit !== undefined, {
    error: "found neither, required is authentication or rateLimit",
  })
  .meta(
    publishRules({
      rule: "has(self.authentication) || has(self.rateLimit)",
      message: "required is authentication or rateLimit",
    }),
  )
  .transform(({ authentication: who, rateLimit: limits = noRateLimit }) => ({
    authentication: who,
    rateLimit: limits,
  }));

/** Schema of a ProxyPolicy. */
export const proxyPolicySchema = strictResource({
  apiVersions: [`${proxyGroup}/v1alpha1`],
  kind: "ProxyPolicy",
  metadata: namespacedMetadata,
  spec: strictObject({
    targetRefs: targetRefs.describe(
      "Routes and Gateways to authenticate and limit, in the namespace of the policy. Each target has its own counters. A limit on a Gateway counts all its routes together. Entries with connections apply to TLSRoutes, TCPRoutes and UDPRoutes only, and everything else to HTTPRoutes and GRPCRoutes only.",
    ),
    traffic: traffic.describe("Rules for the traffic of the targets. Required is authentication or rateLimit."),
  }).describe("Targets, authentication and limits of the policy."),
});

/** A parsed ProxyPolicy. */
export interface ProxyPolicy extends Immutable<z.output<typeof proxyPolicySchema>> {
  /**
   * Set on a rejected policy without a valid version: its limits are unknown. Where no target could be read it has
   * none, and may apply to any target in its namespace.
   */
  readonly isRejected?: true;
  /**
   * Set on a rejected policy with an `authentication`: its targets stay closed, whatever `--refused-policies` says,
   * since they would be open to anyone.
   */
  readonly hasUnreadableAuthentication?: true;
}

/** `spec.traffic.authentication` */
export type Authentication = Immutable<AuthenticationSpec>;
/** An item of `spec.targetRefs`. */
export type PolicyTargetRef = ProxyPolicy["spec"]["targetRefs"][number];
/** `spec.traffic.rateLimit.global` */
export type GlobalRateLimit = NonNullable<ProxyPolicy["spec"]["traffic"]["rateLimit"]["global"]>;
/** An item of `global.fallback`. */
export type FallbackEntry = NonNullable<GlobalRateLimit["fallback"]>[number];
/** An item of `local`. */
export type LocalEntry = ProxyPolicy["spec"]["traffic"]["rateLimit"]["local"][number];
