/**
 * Finds the uploads that keep others from the window of a connection. A server that does not read the body of one
 * request can hold the whole window by it, and the uploads of all others wait.
 */
import type { Http2Stream } from "../http2-stream.ts";
import type { ClientStream } from "./client-stream.ts";

/** How long others wait, in sweeps, without any window from the server. */
const longestSweeps = 4;
/** Sweeps by which a WINDOW_UPDATE shortens the wait. It may not suffice for all, and others soon wait again. */
const sweepsPerOpening = 2;
/** A connection has at most 100 uploads, so one that holds a smaller part of the window is not the cause. */
const smallestPart = 1 / 128;

/** The flow control of a connection, as a sweep finds it. */
export interface ConnectionWindow {
  /** The window that the server gives a stream at first. */
  readonly streamBytes: number;
  /** The largest window of the connection so far. */
  readonly largestBytes: number;
  /** How often the server has opened the window of the connection. */
  readonly openings: number;
  /** The streams that wait for the window of the connection, or for their share of it. */
  readonly waiting: ReadonlySet<Http2Stream>;
  /** Whether too little is left of the window: each waits for any upload, otherwise for those of its client. */
  readonly isExhausted: boolean;
}

/** Watches the window of one connection. */
export class UnreadUploads {
  #openings = -1;
  #sweeps = 0;
  /** The number of uploads to end next. It doubles as long as others wait. */
  #next = 1;

  /** Called every `sweepMs`. Returns the uploads to end. */
  sweep<Head>(window: ConnectionWindow, streams: Iterable<ClientStream<Head>>): readonly ClientStream<Head>[] {
    if (window.waiting.size === 0) {
      this.#sweeps = 0;
      this.#next = 1;
      return [];
    }
    if (window.openings === this.#openings) this.#sweeps++;
    else this.#sweeps = Math.max(0, this.#sweeps - sweepsPerOpening);
    this.#openings = window.openings;
    if (this.#sweeps < longestSweeps) return [];
    const unread = unreadUploads(window, streams).slice(0, this.#next);
    this.#next *= 2;
    return unread;
  }
}

/**
 * Returns the uploads that hold a part of the window, those of the client that holds most of it first. Of those that
 * were sent completely, the server may have read some without giving a window back, so they are last, the latest ones
 * first.
 */
function unreadUploads<Head>(
  { streamBytes, largestBytes, waiting, isExhausted }: ConnectionWindow,
  streams: Iterable<ClientStream<Head>>,
): readonly ClientStream<Head>[] {
  return [...streams]
    .filter((stream) => {
      if (streamBytes - stream.sendWindowBytes < largestBytes * smallestPart) return false;
      return waiting.values().some((other) => other !== stream && (isExhausted || other.share === stream.share));
    })
    .sort((one, other) => {
      const held = heldByClient(other) - heldByClient(one);
      if (held !== 0) return held;
      if (one.hasSentEnd !== other.hasSentEnd) return one.hasSentEnd ? 1 : -1;
      return one.hasSentEnd ? other.id - one.id : one.sendWindowBytes - other.sendWindowBytes;
    });
}

function heldByClient<Head>({ share }: ClientStream<Head>): number {
  return share?.heldBytes ?? 0;
}
