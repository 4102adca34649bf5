/**
 * ProxyPolicy (gatewayproxy.dev/v1alpha1): limits on the traffic of the HTTPRoutes and Gateways it names. The parser
 * accepts and refuses what the CRD accepts and refuses.
 */
import * as z from "zod";
import { celExpression } from "./cel.ts";
import { globalRateLimit } from "./global-rate-limit.ts";
import { namespacedMetadata, readableMetadata, strictResource } from "./metadata.ts";
import { gatewayGroup, proxyGroup } from "./names.ts";
import {
  type Immutable,
  integer,
  list,
  maxInt32,
  objectName,
  publishRules,
  sectionName,
  strictObject,
} from "./schema.ts";
import { usageChunk, usageChunkMeaning } from "./usage-chunk.ts";

const targetRef = strictObject({
  group: z.literal(gatewayGroup).describe("Group of the target."),
  kind: z.enum(["HTTPRoute", "Gateway"]).describe("Kind of the target."),
  name: objectName.describe("Name of the target, in the policy's own namespace."),
  sectionName: sectionName
    .optional()
    .describe("One rule of the HTTPRoute, or one listener of the Gateway, by its name. Absent means all of it."),
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

/** An amount per window, of requests or of tokens; shared by `local` and `global.fallback`. */
const amount = {
  requests: integer(1, maxInt32)
    .optional()
    .describe("Requests that are admitted in each window. Exactly one of requests and tokens is set."),
  tokens: integer(1, maxInt32)
    .optional()
    .describe(
      "LLM tokens of each window, input and output together as the provider reports them. Requests are admitted while any remain; each is charged when its answer has told its cost.",
    ),
  unit: z
    .enum(["Seconds", "Minutes", "Hours"])
    .describe("Length of a window: one second, minute or hour. It opens with the first request."),
  burst: integer(0, maxInt32)
    .optional()
    .describe(
      "Requests that are admitted on top of `requests`, full at start; refilled by what a window leaves over. Together with requests only.",
    ),
};

const amountRules = publishRules(
  { rule: "has(self.requests) != has(self.tokens)", message: "accepted is exactly one of requests and tokens" },
  { rule: "!has(self.burst) || has(self.requests)", message: "burst is accepted together with requests only" },
);

interface Amount {
  readonly requests?: number | undefined;
  readonly tokens?: number | undefined;
  readonly burst?: number | undefined;
}

function checkAmount({ requests, tokens, burst }: Amount, context: z.core.$RefinementCtx): void {
  if ((requests === undefined) === (tokens === undefined)) {
    const found = requests === undefined ? "neither" : "both";
    context.addIssue({ code: "custom", message: `found ${found}, accepted is exactly one of requests and tokens` });
  } else if (tokens !== undefined && burst !== undefined) {
    context.addIssue({ code: "custom", path: ["burst"], message: "burst is accepted together with requests only" });
  }
}

const key = celExpression
  .optional()
  .describe(
    "CEL expression over the request: each distinct value has a counter of its own, requests without a value share one. Absent means one counter for all.",
  );

const localEntry = strictObject({
  ...amount,
  key,
  mode: z
    .enum(["Enforce", "Shadow"])
    .default("Enforce")
    .describe("Enforce refuses what is over the limit with 429. Shadow only counts, logs and measures."),
})
  .superRefine(checkAmount)
  .meta(amountRules);

const fallbackEntry = strictObject({
  ...amount,
  key,
  shareAcrossReplicas: z
    .boolean()
    .default(false)
    .describe("The amounts are of all replicas together: each counts its share, rounded down, at least 1."),
})
  .superRefine(checkAmount)
  .meta(amountRules);

const refundCause = z.enum(["ConnectFailure", "Overload", "Reset", "Timeout", "BackendError"]);

const rateLimit = strictObject({
  local: list(localEntry, { min: 1, max: 16 })
    .optional()
    .describe(
      "Limits that each replica counts by itself. A request must pass all of them; refused, it counts in none.",
    ),
  global: globalRateLimit(fallbackEntry)
    .optional()
    .describe("Limits that a rate limit service counts for all replicas."),
  refundOn: list(refundCause, { min: 0, max: 5 })
    .optional()
    .describe(
      "Failures that give a request's unit back, in local and fallback. ConnectFailure: there is no endpoint, or no connection to it. Overload: no connection became free. In these no backend has seen the request, and they are the default. Reset: the backend broke off before its answer. Timeout: a timeout ended. BackendError: the backend answered with a 5xx. A client that can cause one of the last three has no limit while they are listed. A rate limit service keeps what it has counted.",
    ),
  usageChunk: usageChunk
    .optional()
    .describe(
      `${usageChunkMeaning} Of several policies the one nearest to the rule decides. Absent means what the Backend says, else Merge.`,
    ),
})
  .refine(({ local, global }) => local !== undefined || global !== undefined, {
    error: "found neither, required is local or global",
  })
  .meta(publishRules({ rule: "has(self.local) || has(self.global)", message: "required is local or global" }))
  .transform(({ local = [], global, refundOn, usageChunk }) => ({ local, global, refundOn, usageChunk }));

export const proxyPolicySchema = strictResource({
  apiVersions: [`${proxyGroup}/v1alpha1`],
  kind: "ProxyPolicy",
  metadata: namespacedMetadata,
  spec: strictObject({
    targetRefs: targetRefs.describe(
      "What is limited: HTTPRoutes and Gateways of the policy's namespace. Each has counters of its own. A Gateway's limit is a ceiling over all its routes together.",
    ),
    traffic: strictObject({
      rateLimit: rateLimit.describe("How much of it is admitted."),
    }).describe("What is done with the traffic of the targets."),
  }).describe("Which traffic is limited, and how much of it is admitted."),
});

export interface ProxyPolicy extends Immutable<z.output<typeof proxyPolicySchema>> {
  /**
   * Of a policy that is refused and of which no version was ever sound: what it would limit is unknown. Where no target
   * could be read it has none, and may be about any HTTPRoute of its namespace.
   */
  readonly isRefused?: true;
}

const readableRef = z.object({
  group: z.literal(gatewayGroup).catch(gatewayGroup),
  // A kind that is misspelt most likely means a route.
  kind: z.enum(["HTTPRoute", "Gateway"]).catch("HTTPRoute"),
  name: objectName,
  // Without its section the whole target is meant.
  sectionName: sectionName.optional().catch(undefined),
});

const readableRefs = z
  .array(z.unknown())
  .transform((refs) => refs.map((ref) => readableRef.safeParse(ref).data))
  // One that cannot be read may be about anything, as if none could.
  .transform((refs) => (refs.includes(undefined) ? [] : refs.flatMap((ref) => ref ?? [])));

const remains = z.object({
  metadata: readableMetadata,
  spec: z
    .object({ targetRefs: readableRefs.catch([]) })
    .catch({ targetRefs: [] })
    .transform(({ targetRefs }) => ({
      targetRefs,
      traffic: { rateLimit: { local: [], global: undefined, refundOn: undefined, usageChunk: undefined } },
    })),
});

const anything = z.unknown().optional();
const shadowEntry = z.object({ mode: z.literal("Shadow") });

/**
 * A policy that only counts: to close its targets would do what it was never to do. It has at least one entry, and
 * beside its entries no field that this version does not know, since such a field may be a limit.
 */
const shadowOnly = z.object({
  spec: z.strictObject({
    targetRefs: anything,
    traffic: z.strictObject({
      rateLimit: z
        .strictObject({
          local: z.array(shadowEntry).min(1).optional(),
          global: shadowEntry.optional(),
          refundOn: anything,
          usageChunk: anything,
        })
        .refine(({ local, global }) => local !== undefined || global !== undefined),
    }),
  }),
});

/** What is left of a policy that is refused: its targets. Undefined where it has no name, or would refuse nothing. */
export function refusedProxyPolicy(value: unknown): ProxyPolicy | undefined {
  const read = remains.safeParse(value);
  if (!read.success || shadowOnly.safeParse(value).success) return undefined;
  return { apiVersion: `${proxyGroup}/v1alpha1`, kind: "ProxyPolicy", ...read.data, isRefused: true };
}

export type PolicyTargetRef = ProxyPolicy["spec"]["targetRefs"][number];
export type GlobalRateLimit = NonNullable<ProxyPolicy["spec"]["traffic"]["rateLimit"]["global"]>;
export type FallbackEntry = NonNullable<GlobalRateLimit["fallback"]>[number];
export type LocalEntry = ProxyPolicy["spec"]["traffic"]["rateLimit"]["local"][number];
