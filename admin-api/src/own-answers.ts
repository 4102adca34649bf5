/**
 * What the proxy answers by itself where a rule has no backend to ask, for whoever shows rules (Gateway API
 * `HTTPRouteRule.backendRefs`). Without the schemas, so that a browser need not load them.
 */
import type { DumpedBackend, DumpedRule } from "./config-dump.ts";

export interface OwnAnswer {
  readonly status: 500 | 503;
  /** Why, as the end of a sentence. */
  readonly cause: string;
}

type BackendRef = DumpedRule["backendRefs"][number];

/** The answer to every request of the rule; undefined where backends are asked, or the client is redirected. */
export function ruleAnswer({ refusedPolicies, filters, backendRefs }: DumpedRule): OwnAnswer | undefined {
  if (refusedPolicies.length > 0) {
    return { status: 503, cause: `ProxyPolicy ${refusedPolicies.join(", ")} cannot be read` };
  }
  if (isRedirect(filters)) return undefined;
  if (backendRefs.length === 0) return { status: 500, cause: "the rule names no backend" };
  if (backendRefs.every(({ weight }) => weight === 0)) return { status: 500, cause: "every backend has weight 0" };
  return undefined;
}

/** The answer to the requests that fall to one backend of a rule; undefined where it is asked, or gets none. */
export function backendAnswer(
  { weight, fault, filters }: BackendRef,
  backend: Pick<DumpedBackend, "endpoints"> | undefined,
): OwnAnswer | undefined {
  if (weight === 0) return undefined;
  if (fault !== undefined) return { status: 500, cause: fault };
  if (isRedirect(filters)) return undefined;
  if (backend?.endpoints.length === 0) return { status: 503, cause: "no endpoint is ready" };
  return undefined;
}

function isRedirect(filters: BackendRef["filters"]): boolean {
  return filters.some(({ kind }) => kind === "RequestRedirect");
}
