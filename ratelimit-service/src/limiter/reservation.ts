/**
 * Reservations: calls that count hits which a client replaces later, such as an estimate of LLM tokens by their number.
 * A call that is denied counts nothing. Counters of different descriptors are not changed together, so they are read
 * first: a call that does not fit changes none, since others would be denied meanwhile. The hits of one that fits are
 * counted, and refunded if others at the same time have taken its place. For that time other calls may be denied that
 * would fit, and none is allowed that does not.
 */
import { type CounterStep, type GroupStep, isCounted, StoreError } from "../model/counter-store.ts";
import type { DescriptorStatus } from "../model/rate-limit.ts";
import { applyGroups, type CountOptions } from "./count.ts";
import type { CountedDescriptor, GroupedDescriptor, PlannedDescriptor, StoredDescriptor } from "./plan.ts";

/** Returns the status of a descriptor of an allowed reservation, with the hits that it holds. */
export function heldStatus(descriptor: PlannedDescriptor): DescriptorStatus {
  const { status } = descriptor;
  const heldHits = descriptor.kind === "uncounted" ? 0 : countedHits(descriptor);
  return heldHits > 0 ? { ...status, heldHits } : status;
}

/** Returns the hits that the counters of a descriptor have counted. */
function countedHits(descriptor: StoredDescriptor): number {
  if (descriptor.isOnlyRead) return 0;
  if (descriptor.kind === "counted") return descriptor.isCachedOver ? 0 : descriptor.hits;
  if (descriptor.cachedOver !== undefined) return 0;
  return isCounted(descriptor, descriptor.before) ? descriptor.hits : 0;
}

/**
 * Refunds what a denied reservation has counted. Returns synchronously when the store does. If the store fails, the
 * hits stay counted until their window ends, and the call is denied as it would be otherwise.
 */
export function undoCounts(
  stored: readonly StoredDescriptor[],
  { store, overLimitCache }: CountOptions,
): undefined | Promise<undefined> {
  const counted = stored.filter((descriptor) => countedHits(descriptor) > 0);
  if (counted.length === 0) return undefined;
  const steps = counted.filter((descriptor) => descriptor.kind === "counted").map(refundOfCounter);
  const groups = counted.filter((descriptor) => descriptor.kind === "grouped").map(refundOfGroup);
  const results = [
    ...(steps.length > 0 ? [store.apply(steps)] : []),
    ...(groups.length > 0 ? [applyGroups(store, groups)] : []),
  ];
  // The call itself may have cached that the counters are over their limits.
  overLimitCache?.countRefund();
  const waiting = results.filter((result) => result instanceof Promise);
  if (waiting.length === 0) return undefined;
  return Promise.all<unknown>(waiting).then(
    () => {
      overLimitCache?.countRefund();
      return undefined;
    },
    (error: unknown) => {
      if (error instanceof StoreError) return undefined;
      throw error;
    },
  );
}

function refundOfCounter({ key, hits, windowSeconds, windowEndSeconds, keepSeconds }: CountedDescriptor): CounterStep {
  return { key, hits: -hits, windowSeconds, windowEndSeconds, keepSeconds };
}

function refundOfGroup({ counters, hits, countsDenied }: GroupedDescriptor): GroupStep {
  return { counters, hits: -hits, countsDenied };
}
