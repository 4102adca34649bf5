/** What a bind hands over of a connection that may be relayed instead of read. */
import type { Socket } from "node:net";
import type { ClientConnection } from "./client-connections.ts";
import type { ClientHello, NoClientHello } from "./client-hello.ts";
import type { TlsListener } from "./tls-termination.ts";

/**
 * A client connection of a bind with TLS or TCP listeners. Its socket is paused, and nothing of it has been consumed.
 */
export interface AcceptedStream {
  readonly client: ClientConnection;
  /** As `Connection.sourceAddress`. */
  readonly sourceAddress: string;
  /** As `Connection.peer`. */
  readonly peer: string;
  /** Its beginning; undefined if the receiver does not ask for it. */
  readonly hello: ClientHello | NoClientHello | undefined;
}

/** Receives the result of a TLS handshake that the receiver has asked for. */
export interface SecuredStream {
  /**
   * @param socket is paused.
   * @param serverName by which TLS has chosen the certificate and the validation of the client; empty without one.
   */
  onSecure(socket: Socket, serverName: string): void;
  /** The connection is closed. @param reason for the log. */
  onRejected(reason: string): void;
}

/** Receives the connections of a bind before anything is read of them. */
export interface StreamReceiver {
  /** Whether connections begin with a ClientHello, by which the receiver decides. */
  readonly readsHello: boolean;
  /** The TLS listeners of the bind at which TLS ends. */
  readonly terminated: readonly TlsListener[];
  /**
   * Decides on a connection. It is served as HTTP, or its TLS is ended for the returned receiver, or this receiver has
   * taken it.
   */
  onStream(stream: AcceptedStream): "http" | SecuredStream | "taken";
}
