/**
 * Shares the API server fairly among namespaces. Tenants decide the number of Secrets and ConfigMaps to which resources
 * refer, and each needs a watch, which is a connection. Each namespace therefore has a quota of requests and of
 * watches. Objects beyond the quota are polled, and other namespaces are not affected.
 */
import { ConcurrencyLimit } from "@gatewayproxy/runtime/concurrency-limit";

/** Concurrent requests of one quota, without watches. */
const maxRequests = 4;

/** Concurrent watches of one quota. A namespace rarely has more Secrets; the others are polled. */
export const maxWatches = 64;

/** The minimum interval at which objects without a watch are polled. */
const pollMs = 30_000;

/**
 * The minimum time between two polls of one quota. With many objects the interval grows, so that there are at most four
 * polls a second.
 */
const pollSpacingMs = 250;

/** The quota of one namespace. */
export interface WatchQuota {
  /** Whether the next member may open a watch. */
  readonly hasRoom: boolean;
  /** Adds a member, until it calls `leave`. */
  join(): WatchQuotaMember;
}

/** One object that is watched under a quota. */
export interface WatchQuotaMember {
  /** Runs `act` as soon as fewer than the maximum of requests are in progress. */
  withRequest<T>(act: () => Promise<T>): Promise<T>;
  /** Runs `act` if fewer than the maximum of watches are open; otherwise returns false at once. */
  withWatch(act: () => Promise<void>): Promise<boolean>;
  /** The interval, in ms, at which to read an object that has no watch. */
  readonly pollMs: number;
  leave(): void;
}

/** Creates a quota. */
export function openWatchQuota(): WatchQuota {
  let members = 0;
  let watches = 0;
  const requests = new ConcurrencyLimit(maxRequests);

  const member: Omit<WatchQuotaMember, "leave"> = {
    withRequest: (act) => requests.run(act),
    async withWatch(act) {
      if (watches >= maxWatches) return false;
      watches++;
      try {
        await act();
      } finally {
        watches--;
      }
      return true;
    },
    get pollMs() {
      return Math.max(pollMs, (members - maxWatches) * pollSpacingMs);
    },
  };

  return {
    get hasRoom() {
      return members < maxWatches;
    },
    join() {
      members++;
      let hasLeft = false;
      const { withRequest, withWatch } = member;
      return {
        withRequest,
        withWatch,
        get pollMs() {
          return member.pollMs;
        },
        leave() {
          if (!hasLeft) members--;
          hasLeft = true;
        },
      };
    },
  };
}
