/**
 * Shares the API server fairly among namespaces. Tenants decide how many Secrets and ConfigMaps resources refer to, and
 * each takes a watch, which is a connection. So each namespace has a quota of requests and of watches. Objects beyond
 * the quota are read again from time to time, and other namespaces are not affected.
 */

/** Concurrent requests of one quota, without watches. */
const maxRequests = 4;

/** Concurrent watches of one quota. A namespace rarely has more Secrets; changes of those are seen later. */
export const maxWatches = 64;

/** The interval at which objects without a watch are read. */
const pollMs = 30_000;

/**
 * The least spacing of such reads in one quota: with many objects the interval grows, to at most four reads a second.
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
  /** Runs `act` when a request is free. */
  withRequest<T>(act: () => Promise<T>): Promise<T>;
  /** Runs `act` if a watch is free; otherwise returns false at once. */
  withWatch(act: () => Promise<void>): Promise<boolean>;
  /** The interval, in ms, at which to read an object that has no watch. */
  readonly pollMs: number;
  leave(): void;
}

/** Creates a quota. */
export function openWatchQuota(): WatchQuota {
  let members = 0;
  let requests = 0;
  let watches = 0;
  const waiting: (() => void)[] = [];

  const member: Omit<WatchQuotaMember, "leave"> = {
    async withRequest(act) {
      if (requests >= maxRequests) await new Promise<void>((resolve) => waiting.push(resolve));
      else requests++;
      try {
        return await act();
      } finally {
        // The next caller in the queue takes over.
        const next = waiting.shift();
        if (next === undefined) requests--;
        else next();
      }
    },
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
      const { withRequest: turn, withWatch: watching } = member;
      return {
        withRequest: turn,
        withWatch: watching,
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
