/**
 * Shares the window of a connection between the clients whose uploads it carries. A server that does not read those of
 * one client, or reads them slowly, could otherwise hold the whole window by them, and those of others would wait.
 *
 * While a quarter of the window is left, every client may use it. Of the last quarter, a client uses as much as leaves
 * it no more than stays free for others.
 */

const reservedPart = 1 / 4;
/** Smaller parts of an upload wait: some servers count them as a flood. */
const smallestPartBytes = 1_024;

/** Whether too little is left of a window that several clients use for one that holds nothing of it. */
export function isUsedUp(freeBytes: number): boolean {
  return freeBytes / 2 < smallestPartBytes;
}

/** The part of one client. */
export class WindowShare {
  readonly client: string | undefined;
  readonly #shares: ReadonlyMap<string | undefined, WindowShare>;
  /** Bytes that were sent, and for which the peer has not opened the windows of their streams again. */
  heldBytes = 0;
  /** The open streams of the client. */
  streams = 0;

  constructor(client: string | undefined, shares: ReadonlyMap<string | undefined, WindowShare>) {
    this.client = client;
    this.#shares = shares;
  }

  /**
   * Returns how much of the window the client may use now.
   *
   * @param freeBytes the window.
   * @param largestBytes the largest one so far, which is 64 KiB at least.
   */
  roomIn(freeBytes: number, largestBytes: number): number {
    if (this.#shares.size < 2) return freeBytes;
    const unreserved = freeBytes - largestBytes * reservedPart;
    const room = Math.floor(Math.max(unreserved, (freeBytes - this.heldBytes) / 2));
    return room < smallestPartBytes ? 0 : room;
  }
}

/** The clients with uploads on one connection. */
export class WindowShares {
  readonly #shares = new Map<string | undefined, WindowShare>();

  /** A stream of `client` begins. */
  join(client: string | undefined): WindowShare {
    let share = this.#shares.get(client);
    if (share === undefined) {
      share = new WindowShare(client, this.#shares);
      this.#shares.set(client, share);
    }
    share.streams++;
    return share;
  }

  /** A stream has ended. */
  leave(share: WindowShare, heldBytes: number): void {
    share.heldBytes -= heldBytes;
    if (--share.streams === 0) this.#shares.delete(share.client);
  }
}
