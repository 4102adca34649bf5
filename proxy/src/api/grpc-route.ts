/**
 * GRPCRoute (Gateway API v1.7, standard channel, with `sessionPersistence` of the experimental channel): routes gRPC
 * calls of the listeners of its parents to backends.
 */
import * as z from "zod";
import { checkGrpcPatterns, type GrpcRouteMatch, grpcRouteMatch } from "./grpc-route-match.ts";
import { sessionPersistence } from "./http-route.ts";
import {
  backendReference,
  extensionRef,
  headerModifier,
  missingServicePort,
  namesServicePort,
  requestMirror,
} from "./http-route-filter.ts";
import { gatewayApiVersions, namespacedMetadata, strictResource } from "./metadata.ts";
import { checkRules, parentRefs } from "./route-parts.ts";
import { anyText, hostname, type Immutable, integer, list, sectionName, strictObject } from "./schema.ts";

const filter = z.discriminatedUnion("type", [
  strictObject({ type: z.literal("RequestHeaderModifier"), requestHeaderModifier: headerModifier }),
  strictObject({ type: z.literal("ResponseHeaderModifier"), responseHeaderModifier: headerModifier }),
  strictObject({ type: z.literal("RequestMirror"), requestMirror }),
  strictObject({ type: z.literal("ExtensionRef"), extensionRef }),
]);

/** Filters that must not be repeated in one list. */
const singleFilters: readonly string[] = ["RequestHeaderModifier", "ResponseHeaderModifier"];

const filters = list(filter, { max: 16 })
  .superRefine((all, context) => {
    all.forEach(({ type }, index) => {
      if (!singleFilters.includes(type) || all.findIndex((other) => other.type === type) === index) return;
      context.addIssue({ code: "custom", path: [index, "type"], message: `filter ${type} must not be repeated` });
    });
  })
  .default([]);

const backendRef = strictObject({
  ...backendReference,
  weight: integer(0, 1_000_000).default(1),
  filters,
}).refine(namesServicePort, missingServicePort);

const everyCall = { headers: [] };

const rule = strictObject({
  name: sectionName.optional(),
  // An empty list means the same as none.
  matches: list(grpcRouteMatch, { max: 64 })
    .default([])
    .transform((matches) => (matches.length === 0 ? [everyCall] : matches)),
  filters,
  backendRefs: list(backendRef, { max: 16 }).default([]),
  sessionPersistence: sessionPersistence.optional(),
});

const rules = list(rule, { max: 16 })
  .check(checkGrpcPatterns)
  .superRefine(checkRules)
  .default([])
  // A route without rules has one for every call, as an HTTPRoute.
  .transform((all) => (all.length === 0 ? [{ matches: [everyCall], filters: [], backendRefs: [] }] : all));

/** Schema of a GRPCRoute. */
export const grpcRouteSchema = strictResource({
  apiVersions: [gatewayApiVersions[0]],
  kind: "GRPCRoute",
  metadata: namespacedMetadata,
  spec: strictObject({
    parentRefs: parentRefs.default([]),
    hostnames: list(hostname, { max: 16 }).default([]),
    rules,
    // As in an HTTPRoute.
    useDefaultGateways: anyText.optional(),
  }),
});

/** A parsed GRPCRoute. */
export type GrpcRoute = Immutable<z.output<typeof grpcRouteSchema>>;
/** An item of `spec.rules`. */
export type GrpcRouteRule = GrpcRoute["spec"]["rules"][number];
export type { GrpcRouteMatch };
