/**
 * ProxyPolicy (gatewayproxy.dev/v1alpha1): limits on the traffic of HTTPRoutes and Gateways. The parser accepts and
 * rejects the same objects as the CRD.
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
  name: objectName.describe("Name of the target, in the namespace of the policy."),
  sectionName: sectionName
    .optional()
    .describe(
      "Name of a rule of the HTTPRoute, or of a listener of the Gateway. Without it, the policy applies to the whole target.",
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

/** An amount of requests or tokens per window; shared by `local` and `global.fallback`. */
const amount = {
  requests: integer(1, maxInt32)
    .optional()
    .describe("Requests that are allowed in each window. Exactly one of requests and tokens must be set."),
  tokens: integer(1, maxInt32)
    .optional()
    .describe(
      "LLM tokens that are allowed in each window: input and output together, as the provider reports them. Requests are allowed while any tokens remain, and each is charged when its response reports its usage. Exactly one of requests and tokens must be set.",
    ),
  unit: z
    .enum(["Seconds", "Minutes", "Hours"])
    .describe("Length of the window: one second, minute or hour. A window starts with the first request."),
  burst: integer(0, maxInt32)
    .optional()
    .describe(
      "Requests that are allowed in addition to `requests`. The burst starts full, and unused requests of a window refill it. Only valid together with requests.",
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
    "CEL expression over the request. Each distinct value has its own counter, and requests without a value share one. Without it, one counter counts all requests.",
  );

const localEntry = strictObject({
  ...amount,
  key,
  mode: z
    .enum(["Enforce", "Shadow"])
    .default("Enforce")
    .describe("Enforce denies requests over the limit with 429. Shadow counts and reports them, but denies nothing."),
})
  .superRefine(checkAmount)
  .meta(amountRules);

const fallbackEntry = strictObject({
  ...amount,
  key,
  shareAcrossReplicas: z
    .boolean()
    .default(false)
    .describe(
      "Whether the amounts are for all replicas together. Each replica then counts with an equal share, rounded down to at least 1.",
    ),
})
  .superRefine(checkAmount)
  .meta(amountRules);

const refundCause = z.enum(["ConnectFailure", "Overload", "Reset", "Timeout", "BackendError"]);

const rateLimit = strictObject({
  local: list(localEntry, { min: 1, max: 16 })
    .optional()
    .describe(
      "Limits that each replica counts by itself. A request must be allowed by all of them; a denied request counts against none.",
    ),
  global: globalRateLimit(fallbackEntry)
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
})
  .refine(({ local, global }) => local !== undefined || global !== undefined, {
    error: "found neither, required is local or global",
  })
  .meta(publishRules({ rule: "has(self.local) || has(self.global)", message: "required is local or global" }))
  .transform(({ local = [], global, refundOn, usageChunk }) => ({ local, global, refundOn, usageChunk }));

/** Schema of a ProxyPolicy. */
export const proxyPolicySchema = strictResource({
  apiVersions: [`${proxyGroup}/v1alpha1`],
  kind: "ProxyPolicy",
  metadata: namespacedMetadata,
  spec: strictObject({
    targetRefs: targetRefs.describe(
      "HTTPRoutes and Gateways to limit, in the namespace of the policy. Each target has its own counters. A limit on a Gateway counts all its routes together.",
    ),
    traffic: strictObject({
      rateLimit: rateLimit.describe("Rate limits of the targets. At least one of local and global is required."),
    }).describe("Rules for the traffic of the targets."),
  }).describe("Targets and limits of the policy."),
});

/** A parsed ProxyPolicy. */
export interface ProxyPolicy extends Immutable<z.output<typeof proxyPolicySchema>> {
  /**
   * Set on a rejected policy without a valid version: its limits are unknown. Where no target could be read it has
   * none, and may apply to any HTTPRoute of its namespace.
   */
  readonly isRejected?: true;
}

const readableRef = z.object({
  group: z.literal(gatewayGroup).catch(gatewayGroup),
  // A misspelt kind most likely means a route.
  kind: z.enum(["HTTPRoute", "Gateway"]).catch("HTTPRoute"),
  name: objectName,
  // Without a valid section, the whole target is meant.
  sectionName: sectionName.optional().catch(undefined),
});

const readableRefs = z
  .array(z.unknown())
  .transform((refs) => refs.map((ref) => readableRef.safeParse(ref).data))
  // A target that cannot be read may be any object, as if no target could be read.
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
 * A policy in mode Shadow only, which must not close its targets. It has at least one entry, and beside its entries no
 * field that this version does not know, since such a field may be a limit.
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

/** Reads the remains of a rejected policy: its targets. Undefined where it has no name, or would deny nothing. */
export function rejectedProxyPolicy(value: unknown): ProxyPolicy | undefined {
  const read = remains.safeParse(value);
  if (!read.success || shadowOnly.safeParse(value).success) return undefined;
  return { apiVersion: `${proxyGroup}/v1alpha1`, kind: "ProxyPolicy", ...read.data, isRejected: true };
}

/** An item of `spec.targetRefs`. */
export type PolicyTargetRef = ProxyPolicy["spec"]["targetRefs"][number];
/** `spec.traffic.rateLimit.global` */
export type GlobalRateLimit = NonNullable<ProxyPolicy["spec"]["traffic"]["rateLimit"]["global"]>;
/** An item of `global.fallback`. */
export type FallbackEntry = NonNullable<GlobalRateLimit["fallback"]>[number];
/** An item of `local`. */
export type LocalEntry = ProxyPolicy["spec"]["traffic"]["rateLimit"]["local"][number];
