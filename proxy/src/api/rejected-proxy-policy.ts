/** Reads what is left of a ProxyPolicy that the parser rejects, so that its targets do not become open. */
import { routeKinds } from "@gatewayproxy/runtime/route-key";
import * as z from "zod";
import { readableMetadata } from "./metadata.ts";
import { gatewayGroup, proxyGroup } from "./names.ts";
import { noRateLimit, type PolicyTargetRef, type ProxyPolicy } from "./proxy-policy.ts";
import { objectName, sectionName } from "./schema.ts";

type TargetKind = PolicyTargetRef["kind"];

const readableRef = z.object({
  group: z.literal(gatewayGroup).catch(gatewayGroup),
  // A misspelt kind most likely means a route, of any kind.
  kind: z
    .enum([...routeKinds, "Gateway"])
    .optional()
    .catch(undefined),
  name: objectName,
  // Without a valid section, the whole target is meant.
  sectionName: sectionName.optional().catch(undefined),
});

const readableRefs = z
  .array(z.unknown())
  .transform((refs) => refs.map((ref) => readableRef.safeParse(ref).data))
  // A target that cannot be read may be any object, as if no target could be read.
  .transform((refs) =>
    refs.includes(undefined) ? [] : refs.flatMap((ref) => (ref === undefined ? [] : kindsOf(ref))),
  );

function kindsOf<Ref extends { readonly kind?: TargetKind | undefined }>(
  ref: Ref,
): readonly (Ref & { kind: TargetKind })[] {
  const kinds = ref.kind === undefined ? routeKinds : [ref.kind];
  return kinds.map((kind) => ({ ...ref, kind }));
}

const remains = z.object({
  metadata: readableMetadata,
  spec: z
    .object({ targetRefs: readableRefs.catch([]) })
    .catch({ targetRefs: [] })
    .transform(({ targetRefs }) => ({
      targetRefs,
      traffic: { authentication: undefined, rateLimit: noRateLimit },
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
          headers: anything,
          denied: anything,
        })
        .refine(({ local, global }) => local !== undefined || global !== undefined),
    }),
  }),
});

/** A policy that says anything about authentication, readable or not. */
const withAuthentication = z.object({
  spec: z.object({ traffic: z.object({ authentication: z.unknown().refine((value) => value !== undefined) }) }),
});

/** Reads the remains of a rejected policy: its targets. Undefined where it has no name, or would deny nothing. */
export function rejectedProxyPolicy(value: unknown): ProxyPolicy | undefined {
  const read = remains.safeParse(value);
  if (!read.success || shadowOnly.safeParse(value).success) return undefined;
  const authenticates = withAuthentication.safeParse(value).success;
  return {
    ...{ apiVersion: `${proxyGroup}/v1alpha1`, kind: "ProxyPolicy", ...read.data, isRejected: true },
    ...(authenticates && { hasUnreadableAuthentication: true }),
  };
}
