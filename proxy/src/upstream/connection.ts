/** Connections to endpoints, over which calls are sent. */
import { isIP } from "node:net";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { LocalPorts } from "../connect/local-ports.ts";
import type { Endpoint, UpstreamTls } from "../ir/snapshot.ts";
import type { ClientExchange, ClientExchangeEvents, ClientRequest } from "@gatewayproxy/http/ports";
import type { ConnectionSweeper } from "./connection-sweeper.ts";
import type { UpstreamFailure } from "./failure.ts";

/** How to connect to an endpoint. */
export interface ConnectionTarget {
  readonly endpoint: Endpoint;
  /** Absent: plain text. */
  readonly tls?: UpstreamTls;
  /** Absent: HTTP/1.1. `tcp` and `udp`: it carries streams or sessions, and no calls. */
  readonly protocol?: "h2" | "tcp" | "udp";
}

/** The timeouts of a connection, in milliseconds. */
export interface ConnectionTimeouts {
  /** Maximum time to connect, including the TLS handshake. */
  readonly connectTimeoutMs: number;
  /** Maximum time until the head of a response, and between two parts of a body; 0 is unlimited. */
  readonly idleTimeoutMs: number;
}

/** The timeouts of a connection, and the addresses that it may use. */
export interface ConnectionOptions extends ConnectionTimeouts {
  /** Times connecting. */
  readonly clock: Clock;
  /** Times calls, and idle connections. */
  readonly sweeper: ConnectionSweeper;
  /** Checks every address before a connection. */
  readonly addresses: AddressGuard;
  /** Counts the ports of connections to endpoints; absent: clients do not cause them. */
  readonly localPorts?: LocalPorts;
}

/** A call of a connection. */
export interface ConnectionCall extends ClientExchangeEvents {
  /** Address of the client; undefined for the proxy itself. */
  readonly client: string | undefined;
  /** The time at which it was sent, on the monotonic clock. */
  readonly sentMs: number;
  /** Whether the call has ended. */
  readonly isOver: boolean;
  /** Whether `onSent` was called. */
  readonly hasBegun: boolean;
  /** Whether the client has read its response slower than the endpoint has sent it. */
  readonly hasPaused: boolean;
  /** The status of the response; 0 until its head has arrived. */
  readonly status: number;
  /** The call has got its connection, which may still have to connect. */
  begin(exchange: ClientExchange): void;
  /** The call has been assigned to an open connection. */
  onSent(): void;
  onFailure(failure: UpstreamFailure): void;
  /** Ends the call in favor of another one. */
  displace(failure: UpstreamFailure): void;
}

/** The owner of connections to one endpoint. */
export interface ConnectionOwner {
  /** HTTP/2: the window for uploads of the latest connection. */
  windowBytes?: number | undefined;
  /** HTTP/2: the streams that the endpoint accepts on the latest connection; undefined before the first. */
  maxStreams?: number | undefined;
  /** HTTP/2: the streams that the endpoint has taken at a time, since it has rejected one; undefined if it has not. */
  takenStreams?: number | undefined;
  /** The connection takes no more calls. Those in progress continue, unless it has failed. */
  onUnavailable(connection: Connection): void;
  /** HTTP/2: the endpoint has said how many streams it accepts. Absent: the owner does not need it. */
  onMaxStreams?(connection: Connection): void;
  /**
   * HTTP/2: calls were assigned to a connection before the endpoint has said that it accepts fewer streams. Absent: the
   * owner sends one call on a connection.
   */
  onBeyondMax?(connection: Connection, calls: readonly ConnectionCall[]): void;
}

/** The TLS session of an endpoint, which its next connection resumes (RFC 8446 §2.2). */
export interface SessionStore {
  session: Buffer | undefined;
}

/** A connection and the calls that it carries. */
export interface Connection {
  readonly isHttp2: boolean;
  /**
   * Maximum number of concurrent calls. More streams would all fail with the connection, and share its one core. The
   * endpoint may accept fewer.
   */
  readonly maxCalls: number;
  /** The calls in progress, in the order in which they were sent. */
  readonly calls: Set<ConnectionCall>;
  /** Whether the pool counts it as free: it carries fewer calls than it may. */
  isFree: boolean;
  /** Whether no call was sent on it since the last `EndpointPool.closeIdle`. */
  isUnused: boolean;
  /** Whether another call may be sent on it now. */
  readonly isAvailable: boolean;
  /** Whether the body of another call may have to wait until the endpoint reads those of others. */
  readonly isCrowded: boolean;
  /**
   * Sends a request. `call` receives the events of its response, none of them during this method.
   *
   * @param idleTimeoutMs as `ConnectionTimeouts.idleTimeoutMs`.
   */
  send(request: ClientRequest, idleTimeoutMs: number, call: ConnectionCall): void;
  /** HTTP/2: the endpoint has rejected a call, which is not among `calls` any more, and the connection goes on. */
  rejected?(): void;
  /** HTTP/2: a call has got its response. */
  completed?(): void;
  /** Closes the connection after its calls. */
  close(): void;
  /** Closes the connection now. Calls in progress fail. */
  destroy(): void;
}

/** The maximum of `Connection.maxCalls`. */
export function callsPerConnection({ protocol }: ConnectionTarget): number {
  return protocol === "h2" ? 100 : 1;
}

/** `host:port`, with brackets around an IPv6 address. */
export function addressOf({ host, port }: Endpoint): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}
