/**
 * The calls of a request: the descriptors of one limit, grouped as its `hitsMode` requires. All calls of a request are
 * sent at once. Calls of several requests are never merged, so that a service decides and counts each by itself.
 */
import type { GlobalLimit, HitsMode } from "../../../ir/global-limit.ts";
import type { RequestDescriptor } from "./descriptors.ts";
import type { CallDescriptor, RateLimitRequest } from "./messages.ts";
import type { Method } from "./service-client.ts";

/** A call, and the descriptors of its statuses in their order. */
export interface PlannedCall {
  readonly method: Method;
  readonly call: RateLimitRequest;
  readonly descriptors: readonly RequestDescriptor[];
}

/** A descriptor and the cost of a response under it. */
export interface TokenCharge {
  readonly descriptor: RequestDescriptor;
  /** At least 1. */
  readonly hits: number;
}

/** The hits that `hitsMode: Request` uses to check a token budget; the charge is reduced by them. */
const checkHits = 1;

/**
 * Returns the calls before the request goes to the backend: requests and estimates of tokens are counted, other token
 * budgets only checked.
 */
export function decisionCallsOf(
  { domain, hitsMode }: GlobalLimit,
  descriptors: readonly RequestDescriptor[],
): readonly PlannedCall[] {
  if (hitsMode === "Descriptor") {
    const call = reserving(byDescriptor(domain, descriptors), descriptors);
    return [{ method: "shouldRateLimit", call, descriptors }];
  }
  const tokens = descriptors.filter((descriptor) => countsTokens(descriptor) && descriptor.hits === 0);
  const counted = descriptors.filter(({ hits }) => hits > 0);
  const calls = Array.from(groupByHits(counted), ([hits, group]) => {
    const { call, ...rest } = byRequest("shouldRateLimit", domain, group, hits);
    return { ...rest, call: reserving(call, group) };
  });
  if (tokens.length === 0) return calls;
  return hitsMode === "Kuadrant"
    ? [...calls, byRequest("checkRateLimit", domain, tokens, undefined)]
    : [...calls, byRequest("shouldRateLimit", domain, tokens, checkHits)];
}

/**
 * Returns the calls that charge a response.
 *
 * @param wasChecked The service has responded to the call for this request's decision.
 */
export function chargeCallsOf(
  { domain, hitsMode }: GlobalLimit,
  charges: readonly TokenCharge[],
  wasChecked: boolean,
): readonly Pick<PlannedCall, "method" | "call">[] {
  const charged = charges.map(({ descriptor, hits }) => ({
    ...descriptor,
    hits: hits - (isHeld(descriptor) ? 0 : checkedHits(hitsMode, wasChecked)),
  }));
  const uncounted = charged.filter(({ hits }) => hits > 0);
  if (uncounted.length === 0) return [];
  if (hitsMode === "Descriptor") return [{ method: "shouldRateLimit", call: byDescriptor(domain, uncounted) }];
  const method = hitsMode === "Kuadrant" ? "report" : "shouldRateLimit";
  return [...groupByHits(uncounted)].map(([hits, group]) => byRequest(method, domain, group, hits));
}

/**
 * Returns the call that refunds hits.
 *
 * @param heldAtMs of the response to the call that counted them.
 */
export function refundCallOf(
  { domain }: GlobalLimit,
  refunds: readonly TokenCharge[],
  heldAtMs: number,
): RateLimitRequest {
  const descriptors = refunds.map(({ descriptor, hits }) => ({ ...callDescriptor(descriptor, hits), isRefund: true }));
  return { domain, heldAtMs, descriptors };
}

/** Whether a descriptor counts an estimate of tokens, which the charge replaces. */
export function isHeld(descriptor: RequestDescriptor): boolean {
  return countsTokens(descriptor) && descriptor.hits > 0;
}

function checkedHits(hitsMode: HitsMode, wasChecked: boolean): number {
  return hitsMode === "Request" && wasChecked ? checkHits : 0;
}

function countsTokens({ compiled }: RequestDescriptor): boolean {
  return compiled.descriptor.counts === "tokens";
}

/**
 * Sends one amount for the whole call if all descriptors have the same, since all services read it; otherwise one
 * amount per descriptor.
 */
function byDescriptor(domain: string, descriptors: readonly RequestDescriptor[]): RateLimitRequest {
  const first = descriptors[0]?.hits ?? 0;
  const isUniform = first > 0 && descriptors.every(({ hits }) => hits === first);
  return isUniform
    ? { domain, hits: first, descriptors: descriptors.map((descriptor) => callDescriptor(descriptor)) }
    : { domain, descriptors: descriptors.map((descriptor) => callDescriptor(descriptor, descriptor.hits)) };
}

/** Marks a call as a reservation if it counts estimates. */
function reserving(call: RateLimitRequest, descriptors: readonly RequestDescriptor[]): RateLimitRequest {
  return descriptors.some(isHeld) ? { ...call, reserves: true } : call;
}

function byRequest(
  method: Method,
  domain: string,
  group: readonly RequestDescriptor[],
  hits: number | undefined,
): PlannedCall {
  return {
    method,
    call: { domain, hits, descriptors: group.map((descriptor) => callDescriptor(descriptor)) },
    descriptors: group,
  };
}

function callDescriptor({ entries, override }: RequestDescriptor, hits?: number): CallDescriptor {
  return { entries, limitOverride: override, hits };
}

function groupByHits(descriptors: readonly RequestDescriptor[]): ReadonlyMap<number, readonly RequestDescriptor[]> {
  const groups = new Map<number, RequestDescriptor[]>();
  for (const descriptor of descriptors) {
    const group = groups.get(descriptor.hits);
    if (group === undefined) groups.set(descriptor.hits, [descriptor]);
    else group.push(descriptor);
  }
  return groups;
}
