/**
 * Which calls a request makes: the descriptors of one limit, put together as its `hitsMode` asks. Calls of one request go
 * out at once; those of several requests are never merged, so that a service answers and counts each by itself.
 */
import type { GlobalLimit, HitsMode } from "../../../ir/global-limit.ts";
import type { RequestDescriptor } from "./descriptors.ts";
import type { CallDescriptor, RateLimitCall } from "./messages.ts";
import type { Method } from "./service-client.ts";

/** A call, and the descriptors that its statuses are about, in their order. */
export interface PlannedCall {
  readonly method: Method;
  readonly call: RateLimitCall;
  readonly about: readonly RequestDescriptor[];
}

/** A descriptor and what a response has cost under it. */
export interface TokenCharge {
  readonly descriptor: RequestDescriptor;
  /** At least 1. */
  readonly hits: number;
}

/** What `Request` takes to look at a token budget; its charge is less by as much. */
const hitsToLook = 1;

/** The questions before the backend: requests are counted, token budgets only looked at. */
export function questionsOf(
  { domain, hitsMode }: GlobalLimit,
  descriptors: readonly RequestDescriptor[],
): readonly PlannedCall[] {
  if (hitsMode === "Descriptor")
    return [{ method: "shouldRateLimit", call: byDescriptor(domain, descriptors), about: descriptors }];
  const tokens = descriptors.filter(isOfTokens);
  const requests = descriptors.filter((descriptor) => !isOfTokens(descriptor) && descriptor.hits > 0);
  const calls = [...groupByHits(requests)].map(([hits, about]) => byRequest("shouldRateLimit", domain, about, hits));
  if (tokens.length === 0) return calls;
  return hitsMode === "Kuadrant"
    ? [...calls, byRequest("checkRateLimit", domain, tokens, undefined)]
    : [...calls, byRequest("shouldRateLimit", domain, tokens, hitsToLook)];
}

/**
 * The charges after the response.
 *
 * @param wasAsked the service has answered a question about this request.
 */
export function chargesOf(
  { domain, hitsMode }: GlobalLimit,
  charges: readonly TokenCharge[],
  wasAsked: boolean,
): readonly Pick<PlannedCall, "method" | "call">[] {
  const charged = charges.map(({ descriptor, hits }) => ({ ...descriptor, hits: hits - paid(hitsMode, wasAsked) }));
  const owed = charged.filter(({ hits }) => hits > 0);
  if (owed.length === 0) return [];
  if (hitsMode === "Descriptor") return [{ method: "shouldRateLimit", call: byDescriptor(domain, owed) }];
  const method = hitsMode === "Kuadrant" ? "report" : "shouldRateLimit";
  return [...groupByHits(owed)].map(([hits, about]) => byRequest(method, domain, about, hits));
}

function paid(hitsMode: HitsMode, wasAsked: boolean): number {
  return hitsMode === "Request" && wasAsked ? hitsToLook : 0;
}

function isOfTokens({ compiled }: RequestDescriptor): boolean {
  return compiled.descriptor.counts === "tokens";
}

/** One figure that holds for all goes into the call as well known services read it; else each descriptor has its own. */
function byDescriptor(domain: string, descriptors: readonly RequestDescriptor[]): RateLimitCall {
  const first = descriptors[0]?.hits ?? 0;
  const isOne = first > 0 && descriptors.every(({ hits }) => hits === first);
  return isOne
    ? { domain, hits: first, descriptors: descriptors.map((descriptor) => callDescriptor(descriptor)) }
    : { domain, descriptors: descriptors.map((descriptor) => callDescriptor(descriptor, descriptor.hits)) };
}

function byRequest(
  method: Method,
  domain: string,
  about: readonly RequestDescriptor[],
  hits: number | undefined,
): PlannedCall {
  return { method, call: { domain, hits, descriptors: about.map((descriptor) => callDescriptor(descriptor)) }, about };
}

function callDescriptor({ compiled, entries }: RequestDescriptor, hits?: number): CallDescriptor {
  return { entries, limitOverride: compiled.descriptor.limitOverride, hits };
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
