/**
 * Shares the API server fairly among namespaces. Tenants decide how many Secrets and ConfigMaps are named, and each would
 * take a watch, which is a connection. So a namespace has a lane of its own, with a bound of requests and of watches. What
 * is beyond the bound is read again from time to time, and the lanes of other namespaces notice nothing.
 */

/** Requests of a lane at one time, watches apart. */
const maxRequests = 4;

/** Watches of a lane. More Secrets than that are rare, and are seen later. */
export const maxWatches = 64;

/** Objects that are not watched are read so often, */
const pollMs = 30_000;

/** or, where that would be more than four a second in a lane, more seldom. */
const pollSpacingMs = 250;

export interface Lane {
  /** Whether the next member may open a watch. */
  readonly hasRoom: boolean;
  /** Takes part until `leave` is called. */
  join(): LaneMember;
}

export interface LaneMember {
  /** Does something when it is its turn. */
  turn<T>(act: () => Promise<T>): Promise<T>;
  /** Does something for as long as it may hold a watch; false, at once, where it may not. */
  watching(act: () => Promise<void>): Promise<boolean>;
  /** When to read again what cannot be watched. */
  readonly pollMs: number;
  leave(): void;
}

export function openLane(): Lane {
  let members = 0;
  let requests = 0;
  let watches = 0;
  const waiting: (() => void)[] = [];

  const member: Omit<LaneMember, "leave"> = {
    async turn(act) {
      if (requests >= maxRequests) await new Promise<void>((resolve) => waiting.push(resolve));
      else requests++;
      try {
        return await act();
      } finally {
        // The next one in the queue takes the place.
        const next = waiting.shift();
        if (next === undefined) requests--;
        else next();
      }
    },
    async watching(act) {
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
      const { turn, watching } = member;
      return {
        turn,
        watching,
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
