/** The properties of a client connection that are known before its first request and apply to all of them. */
import type { ClientValidation } from "../ir/snapshot.ts";
import type { Scheme } from "./request-head.ts";

/** A client connection after its PROXY protocol header and TLS handshake. */
export interface Connection {
  /** The client's address: that of the peer, or of the PROXY protocol header. */
  readonly sourceAddress: string;
  /** Address and port of the peer. No other open connection of the bind has both. */
  readonly peer: string;
  /** The result of the TLS handshake; undefined on plain text. */
  readonly tls: TlsSession | undefined;
  /** The requests of the connection that were ended for their memory. */
  readonly ended: EndedRequests;
}

/** Time in which the ended requests of a connection are counted together. */
const endedWindowMs = 10_000;
/** The number of streams that an HTTP/2 connection may open at once. */
const maxEndedForMemory = 100;

/** Counts the requests of a connection that were ended because requests used too much memory. */
export class EndedRequests {
  #count = 0;
  /** When the first request of the count was ended; monotonic. */
  #sinceMs = 0;

  /** Counts an ended request. @param nowMs monotonic. */
  count(nowMs: number): void {
    if (nowMs - this.#sinceMs > endedWindowMs) {
      this.#count = 0;
      this.#sinceMs = nowMs;
    }
    this.#count++;
  }

  /**
   * Whether 100 requests of the connection, as many as may be open at once, were ended for their memory within 10 s. A
   * connection that still sends requests is closed. @param nowMs monotonic.
   */
  isTooGreedy(nowMs: number): boolean {
    return this.#count >= maxEndedForMemory && nowMs - this.#sinceMs <= endedWindowMs;
  }
}

/** The result of a TLS handshake. */
export interface TlsSession {
  /** The server name that the client sent (SNI), in lower case; empty if it sent none. */
  readonly serverName: string;
  /** The rule that validated the client's certificate; absent if none was requested. */
  readonly validation: ClientValidation | undefined;
}

/** Returns `https` for connections with TLS, else `http`. */
export function schemeOf({ tls }: Connection): Scheme {
  return tls === undefined ? "http" : "https";
}
