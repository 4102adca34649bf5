/**
 * ProxyPolicy (gatewayproxy.dev/v1alpha1): limits on the traffic of the HTTPRoutes and Gateways it names. The parser
 * accepts and refuses what the CRD accepts and refuses.
 */
import * as z from "zod";
import { celExpression } from "./cel.ts";
import { globalRateLimit } from "./global-rate-limit.ts";
import { namespacedMetadata, strictResource } from "./metadata.ts";
import { gatewayGroup, proxyGroup } from "./names.ts";
import { type Immutable, integer, list, maxInt32, objectName, sectionName, strictObject } from "./schema.ts";

const targetRef = strictObject({
  group: z.literal(gatewayGroup),
  kind: z.enum(["HTTPRoute", "Gateway"]),
  name: objectName,
  /** A rule of the HTTPRoute or a listener of the Gateway. */
  sectionName: sectionName.optional(),
});

const targetRefs = list(targetRef, { min: 1, max: 16 }).superRefine((refs, context) => {
  const seen = new Set<string>();
  refs.forEach(({ kind, name, sectionName }, index) => {
    const target = `${kind} ${name}${sectionName === undefined ? "" : `, section ${sectionName}`}`;
    if (seen.has(target)) {
      context.addIssue({ code: "custom", path: [index], message: `${target} is named twice` });
    }
    seen.add(target);
  });
});

/** An amount per window, of requests or of tokens; shared by `local` and `global.fallback`. */
const amount = {
  requests: integer(1, maxInt32).optional(),
  tokens: integer(1, maxInt32).optional(),
  unit: z.enum(["Seconds", "Minutes", "Hours"]),
  /** On top of `requests`, full at start. */
  burst: integer(0, maxInt32).optional(),
};

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

const localEntry = strictObject({
  ...amount,
  /** One counter per distinct value. */
  key: celExpression.optional(),
  mode: z.enum(["Enforce", "Shadow"]).default("Enforce"),
}).superRefine(checkAmount);

const fallbackEntry = strictObject({
  ...amount,
  /** The amounts are of all replicas together: each counts its share, rounded up. */
  shareAcrossReplicas: z.boolean().default(false),
}).superRefine(checkAmount);

const rateLimit = strictObject({
  local: list(localEntry, { min: 1, max: 16 }).optional(),
  global: globalRateLimit(fallbackEntry).optional(),
})
  .refine(({ local, global }) => local !== undefined || global !== undefined, {
    error: "found neither, required is local or global",
  })
  .transform(({ local = [], global }) => ({ local, global }));

export const proxyPolicySchema = strictResource({
  apiVersions: [`${proxyGroup}/v1alpha1`],
  kind: "ProxyPolicy",
  metadata: namespacedMetadata,
  spec: strictObject({ targetRefs, traffic: strictObject({ rateLimit }) }),
});

export type ProxyPolicy = Immutable<z.output<typeof proxyPolicySchema>>;
export type PolicyTargetRef = ProxyPolicy["spec"]["targetRefs"][number];
export type GlobalRateLimit = NonNullable<ProxyPolicy["spec"]["traffic"]["rateLimit"]["global"]>;
export type FallbackEntry = NonNullable<GlobalRateLimit["fallback"]>[number];
export type LocalEntry = ProxyPolicy["spec"]["traffic"]["rateLimit"]["local"][number];
