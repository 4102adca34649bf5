/** The properties of a client connection that are known before its first request and apply to all of them. */
import type { ClientValidation } from "../ir/snapshot.ts";
import type { Scheme } from "./request-head.ts";

/** A client connection after its PROXY protocol header and TLS handshake. */
export interface Connection {
  /** The client's address: that of the peer, or of the PROXY protocol header. */
  readonly sourceAddress: string;
  /** Address and port of the peer; unlike those of any other connection that is open. */
  readonly peer: string;
  /** Absent on plain text. */
  readonly tls: TlsSession | undefined;
  /** The counts of request heads, which bound what the connection may hold. */
  readonly heads: HeadCounts;
}

/** A request body in chunks. */
export interface ChunkedBody {
  /**
   * Rejects the request, whose trailers exceed the limits of a head.
   *
   * @returns false where the request has not begun, or has ended.
   */
  rejectTrailers(): boolean;
}

/** Requests of a connection that are counted together when they are ended for their memory. */
const endedWindowMs = 10_000;
/** As many as HTTP/2 permits at once. */
const maxEndedForMemory = 100;

/** Of the requests that have come on a connection. Positions are bytes from the beginning of what is read. */
export class HeadCounts {
  /** The number of complete heads, including rejected ones. */
  received = 0;
  /** Position up to which all bytes belong to requests whose heads are complete; ahead of what was read while a body is. */
  completeBytes = 0;
  /** The body in chunks that has not ended: what comes is more of it, and no other head. HTTP/1 only. */
  chunked: ChunkedBody | undefined;
  /** Set while heads are counted: arriving bytes belong to a request in progress, and not to another head. */
  isInBody = false;
  /** Set while heads are counted: a request of the connection is in progress. */
  isBusy = false;
  /** Set while heads are counted: received bytes of the bodies of requests in progress. */
  bodyBytes = 0;
  /** Set while heads are counted: the client has not taken all of a response. */
  isUnread = false;
  /** HTTP/2 only: sends a PING. `onAck` is called when the client has acknowledged it (RFC 9113 §6.7). */
  ping: ((onAck: () => void) => void) | undefined;
  /**
   * Memory of received requests that are not in progress (`request-memory.ts`): those that wait for the requests before
   * them, those that were dropped with their connection still open, and rejected ones with an unread response.
   */
  heldBytes = 0;
  #endedForMemory = 0;
  /** When the first of them was ended; monotonic. */
  #endedSinceMs = 0;

  get isInChunks(): boolean {
    return this.chunked !== undefined;
  }

  /** A request of the connection was ended, because requests take too much memory. */
  countEndedForMemory(nowMs: number): void {
    if (nowMs - this.#endedSinceMs > endedWindowMs) {
      this.#endedForMemory = 0;
      this.#endedSinceMs = nowMs;
    }
    this.#endedForMemory++;
  }

  /** Whether the connection goes on sending requests while as many as may be open at once were ended for their memory. */
  isTooGreedy(nowMs: number): boolean {
    return this.#endedForMemory >= maxEndedForMemory && nowMs - this.#endedSinceMs <= endedWindowMs;
  }

  /**
   * The head of an HTTP/1 request is complete.
   *
   * @param bytesRead position up to which was read.
   * @param headBytes length of the head.
   * @param bodyBytes length of the body that it announces.
   */
  take(bytesRead: number, headBytes: number, bodyBytes: number): void {
    this.received++;
    // Each length is off by the blanks around values, which must not add up.
    this.completeBytes = Math.min(this.completeBytes + headBytes, bytesRead) + bodyBytes;
  }
}

/**
 * How far a server is on its way down. While it is `leaving` it still takes connections and requests, and asks clients to
 * use another connection; once it is `closing` it accepts none, and requests in progress end.
 */
export type DrainPhase = "serving" | "leaving" | "closing";

/** What a TLS handshake settled. */
export interface TlsSession {
  /** The name the client asked for (SNI), lower case; empty when it named none. */
  readonly serverName: string;
  /** The rule that validated the client's certificate; absent if none was requested. */
  readonly validation: ClientValidation | undefined;
}

/** How the requests of a connection reach us. */
export function schemeOf({ tls }: Connection): Scheme {
  return tls === undefined ? "http" : "https";
}
