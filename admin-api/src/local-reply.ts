/**
 * The local replies of the proxy to requests without a usable backend, for display (Gateway API
 * `HTTPRouteRule.backendRefs`). Without the schemas, so that a browser need not load them.
 */
import type { DumpedBackend, DumpedRule } from "./config-dump.ts";

/** A local reply and its cause. */
export interface LocalReply {
  readonly status: 500 | 503;
  /** Why, as the end of a sentence. */
  readonly cause: string;
}

type BackendRef = DumpedRule["backendRefs"][number];

/** Returns the local reply to every request of the rule; undefined if requests are forwarded or redirected. */
export function ruleLocalReply({ refusedPolicies, filters, backendRefs }: DumpedRule): LocalReply | undefined {
  if (refusedPolicies.length > 0) {
    return { status: 503, cause: `ProxyPolicy ${refusedPolicies.join(", ")} cannot be read` };
  }
  if (isRedirect(filters)) return undefined;
  if (backendRefs.length === 0) return { status: 500, cause: "the rule names no backend" };
  if (backendRefs.every(({ weight }) => weight === 0)) return { status: 500, cause: "every backend has weight 0" };
  return undefined;
}

/** Returns the local reply to the requests of one backend of a rule; undefined if it is used, or gets no requests. */
export function backendLocalReply(
  { weight, fault, filters }: BackendRef,
  backend: Pick<DumpedBackend, "endpoints"> | undefined,
): LocalReply | undefined {
  if (weight === 0) return undefined;
  if (fault !== undefined) return { status: 500, cause: fault };
  if (isRedirect(filters)) return undefined;
  if (backend?.endpoints.length === 0) return { status: 503, cause: "no endpoint is ready" };
  return undefined;
}

function isRedirect(filters: BackendRef["filters"]): boolean {
  return filters.some(({ kind }) => kind === "RequestRedirect");
}
