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
  /** The requests of the connection that were ended for their memory. */
  readonly ended: EndedRequests;
}

/** Requests of a connection that are counted together when they are ended for their memory. */
const endedWindowMs = 10_000;
/** As many as HTTP/2 permits at once. */
const maxEndedForMemory = 100;

/** The requests of a connection that were ended for their memory. */
export class EndedRequests {
  #count = 0;
  /** When the first of them was ended; monotonic. */
  #sinceMs = 0;

  /** A request of the connection was ended, because requests take too much memory. */
  count(nowMs: number): void {
    if (nowMs - this.#sinceMs > endedWindowMs) {
      this.#count = 0;
      this.#sinceMs = nowMs;
    }
    this.#count++;
  }

  /** Whether the connection goes on sending requests while as many as may be open at once were ended for their memory. */
  isTooGreedy(nowMs: number): boolean {
    return this.#count >= maxEndedForMemory && nowMs - this.#sinceMs <= endedWindowMs;
  }
}

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
