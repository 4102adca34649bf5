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

/** Requests of a connection that are counted together when they are ended for their memory. */
const endedWindowMs = 10_000;
/** As many as HTTP/2 permits at once. */
const maxEndedForMemory = 100;

/** Of the requests that have come on a connection, over HTTP/2 for the most part. Positions are bytes from the beginning. */
export class HeadCounts {
  /** The number of complete heads, including rejected ones. */
  received = 0;
  /** Position up to which all bytes belong to requests whose heads are complete. */
  completeBytes = 0;
  /** Set while heads are counted: a request of the connection is in progress. */
  isBusy = false;
  /** Set while heads are counted: received bytes of the bodies of requests in progress. */
  bodyBytes = 0;
  /** Set while heads are counted: the client has not taken all of a response. */
  isUnread = false;
  /** Sends a PING. `onAck` is called when the client has acknowledged it (RFC 9113 §6.7). */
  ping: ((onAck: () => void) => void) | undefined;
  /** Memory of rejected requests with an unread response (`request-memory.ts`). */
  heldBytes = 0;
  #endedForMemory = 0;
  /** When the first of them was ended; monotonic. */
  #endedSinceMs = 0;

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
