/**
 * HTTPRoute (Gateway API v1.7, standard channel, with `sessionPersistence` of the experimental channel): routes
 * requests of the listeners of its parents to backends.
 */
import * as z from "zod";
import { duration, durationMs } from "./duration.ts";
import {
  backendReference,
  type HttpRouteFilter,
  httpRouteFilters,
  missingServicePort,
  namesServicePort,
} from "./http-route-filter.ts";
import { checkPatterns, httpRouteMatch, type HttpRouteMatch } from "./http-route-match.ts";
import { gatewayApiVersions, namespacedMetadata, strictResource } from "./metadata.ts";
import { checkRules, parentRefs } from "./route-parts.ts";
import { anyText, hostname, type Immutable, integer, list, maxInt32, sectionName, strictObject } from "./schema.ts";

const backendRef = strictObject({
  ...backendReference,
  weight: integer(0, 1_000_000).default(1),
  filters: httpRouteFilters,
}).refine(namesServicePort, missingServicePort);

const timeouts = strictObject({ request: duration.optional(), backendRequest: duration.optional() }).refine(
  ({ request, backendRequest }) => {
    if (request === undefined || backendRequest === undefined || durationMs(request) === 0) return true;
    return durationMs(backendRequest) <= durationMs(request);
  },
  { error: "backendRequest must not be longer than request", path: ["backendRequest"] },
);

const retry = strictObject({
  codes: z
    .array(integer(400, 599))
    .refine((codes) => new Set(codes).size === codes.length, { error: "a code is named twice" })
    .optional(),
  attempts: integer(0, maxInt32).optional(),
  backoff: duration.optional(),
});

const lifetimeType = z.enum(["Permanent", "Session"]).optional();

/**
 * `SessionPersistence` of the experimental channel, with the fields of Gateway API 1.7 and of earlier versions. It is
 * read so that the status reports it as unsupported.
 */
export const sessionPersistence = strictObject({
  sessionName: anyText.optional(),
  absoluteTimeout: duration.optional(),
  idleTimeout: duration.optional(),
  type: z.enum(["Cookie", "Header"]).optional(),
  cookieConfig: strictObject({ lifetimeType }).optional(),
  cookie: strictObject({ name: anyText.optional(), path: anyText.optional(), lifetimeType }).optional(),
  header: strictObject({ name: anyText }).optional(),
});

const defaultMatch = { path: { type: "PathPrefix" as const, value: "/" }, headers: [], queryParams: [] };

const rule = strictObject({
  name: sectionName.optional(),
  // An empty list means the same as none.
  matches: list(httpRouteMatch, { max: 64 })
    .default([])
    .transform((matches) => (matches.length === 0 ? [defaultMatch] : matches)),
  filters: httpRouteFilters,
  backendRefs: list(backendRef, { max: 16 }).default([]),
  timeouts: timeouts.optional(),
  retry: retry.optional(),
  sessionPersistence: sessionPersistence.optional(),
}).superRefine(({ matches, filters, backendRefs }, context) => {
  const redirect = filters.findIndex(({ type }) => type === "RequestRedirect");
  if (redirect >= 0 && backendRefs.length > 0) {
    const message = "filter RequestRedirect must not be used together with backendRefs";
    context.addIssue({ code: "custom", path: ["filters", redirect], message });
  }
  const rewritesPrefix = [filters, ...backendRefs.map((ref) => ref.filters)].flat().some(replacesPrefix);
  const hasOnePrefix = matches.length === 1 && matches[0]?.path.type === "PathPrefix";
  if (rewritesPrefix && !hasOnePrefix) {
    const message = "path type ReplacePrefixMatch requires exactly one match, of path type PathPrefix";
    context.addIssue({ code: "custom", path: ["matches"], message });
  }
});

function replacesPrefix(filter: HttpRouteFilter): boolean {
  if (filter.type === "URLRewrite") return filter.urlRewrite.path?.type === "ReplacePrefixMatch";
  return filter.type === "RequestRedirect" && filter.requestRedirect.path?.type === "ReplacePrefixMatch";
}

const rules = list(rule, { min: 1, max: 16 })
  .check(checkPatterns)
  .superRefine(checkRules)
  .default([{ matches: [defaultMatch], filters: [], backendRefs: [] }]);

/** Schema of an HTTPRoute. */
export const httpRouteSchema = strictResource({
  apiVersions: gatewayApiVersions,
  kind: "HTTPRoute",
  metadata: namespacedMetadata,
  spec: strictObject({
    parentRefs: parentRefs.default([]),
    hostnames: list(hostname, { max: 16 }).default([]),
    rules,
    // Experimental channel. The field is read so that the status reports it as unsupported instead of rejecting the
    // route.
    useDefaultGateways: anyText.optional(),
  }),
});

/** A parsed HTTPRoute. */
export type HttpRoute = Immutable<z.output<typeof httpRouteSchema>>;
/** An item of `spec.rules`. */
export type HttpRouteRule = HttpRoute["spec"]["rules"][number];
/** An item of `backendRefs` of a rule. */
export type HttpBackendRef = HttpRouteRule["backendRefs"][number];
/** An item of `spec.parentRefs`. */
export type ParentRef = HttpRoute["spec"]["parentRefs"][number];
export type { HttpRouteFilter, HttpRouteMatch };
