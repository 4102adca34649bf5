/**
 * The record of one relayed connection, or of one UDP session. It is passed once to the access log and the metrics,
 * when both sides are closed.
 */
import type { LimitDecision } from "../ir/limit.ts";

/** Why a relayed connection or a session has ended. */
export type StreamEnd =
  /** The client has ended its side first, and all bytes were relayed. */
  | "ClientClosed"
  /** The endpoint has ended its side first, and all bytes were relayed. */
  | "BackendClosed"
  /** The client has reset the connection, or has left while bytes were on their way. */
  | "ClientReset"
  /** The endpoint has reset the connection, or reports that nothing listens at its port (UDP). */
  | "BackendReset"
  /** No byte was relayed within the idle timeout. Most UDP sessions end so. */
  | "IdleTimeout"
  /** The proxy shuts down. */
  | "Drained"
  /** The route has left the listener, or no longer refers to the backend. */
  | "RouteChanged"
  /** The backend has not had the endpoint of a UDP session for 30 s. */
  | "EndpointRemoved"
  /** A bound of client connections, the maximum of sessions, or the limit of open files was exceeded. */
  | "Shed"
  /** The connection does not begin with a ClientHello. */
  | "BadClientHello"
  /** The handshake at a listener that ends TLS has failed. */
  | "TlsFailure"
  /** No route of the listener has the server name, or there is no route. */
  | "RouteNotFound"
  /** A policy of the route cannot be read, and `--refused-policies Closed` closes its targets. */
  | "PolicyRefused"
  /** A limit of connections denied it. */
  | "RateLimited"
  /** The route has no backend, or one that does not exist or that it may not refer to. */
  | "InvalidBackend"
  /** The backend has no ready endpoint. */
  | "NoReadyEndpoint"
  /** The address of the endpoint is one to which the proxy does not connect. */
  | "ForbiddenAddress"
  /** The gateway itself has made the connection, or sent the datagram: the route leads back to it. */
  | "Loop"
  /** No connection to an endpoint could be made. */
  | "UpstreamConnectFailure"
  /** An internal error; logged with its stack. */
  | "Internal";

/** The ends in which all that was sent has arrived, as far as the proxy knows. */
const goodEnds: ReadonlySet<StreamEnd> = new Set(["ClientClosed", "BackendClosed", "IdleTimeout", "Drained"]);

/** The record of one relayed connection or session. */
export interface StreamRecord {
  /** The protocol of the listener. A session is of protocol UDP. */
  readonly protocol: "TLS" | "TCP" | "UDP";
  /** Wall time of the accept, or of the first datagram, ms since the epoch. */
  readonly startMs: number;
  durationMs: number;
  /** The address of the client. */
  readonly sourceAddress: string;
  /** The server name (SNI) in lower case; undefined without TLS, or if the client sent none. */
  readonly serverName: string | undefined;
  /** Keys as in the snapshot; undefined while no listener or route is found. */
  readonly listener: string | undefined;
  readonly route: string | undefined;
  readonly rule: string | undefined;
  /** `namespace/name` */
  readonly gateway: string | undefined;
  backend: string | undefined;
  /** `host:port` of the last endpoint that was tried. */
  endpoint: string | undefined;
  /** The endpoints that were tried. */
  attempts: number;
  /** From the start of the last attempt until it was connected; undefined without a connection. */
  connectMs: number | undefined;
  /** From the client, without TLS where the gateway ends it. */
  receivedBytes: number;
  /** To the client, likewise. */
  sentBytes: number;
  /** Undefined while it is open. */
  reason: StreamEnd | undefined;
  /** One per evaluated entry. Shared, so never mutated. */
  decisions: readonly LimitDecision[];
}

/** The properties that a connection or session has at its start. */
export type StreamStart = Pick<
  StreamRecord,
  "protocol" | "startMs" | "sourceAddress" | "serverName" | "listener" | "route" | "rule" | "gateway"
>;

/** Returns the record of one that has begun. */
export function newStreamRecord(start: StreamStart): StreamRecord {
  return {
    ...start,
    durationMs: 0,
    backend: undefined,
    endpoint: undefined,
    attempts: 0,
    connectMs: undefined,
    receivedBytes: 0,
    sentBytes: 0,
    reason: undefined,
    decisions: [],
  };
}

/** Whether a connection or session has ended without an error. */
export function hasEndedWell({ reason }: StreamRecord): boolean {
  return reason !== undefined && goodEnds.has(reason);
}

/** Why a datagram of a client or an endpoint was dropped. */
export type DropReason =
  /** There is no session for it, and none can begin: the reason of its end. */
  | StreamEnd
  /** As many datagrams wait for the kernel as may. */
  | "BufferFull"
  /** It is larger than a datagram to the endpoint can be. */
  | "TooLarge"
  /** A reply to a client that has sent its datagram from port 0, to which none can be sent. */
  | "NoSourcePort";

/** Receives the events of relayed connections and sessions. */
export interface StreamObserver {
  streamOpened(record: StreamRecord): void;
  /** Called from time to time while bytes are relayed, and at the end. */
  bytesRelayed(record: StreamRecord, receivedBytes: number, sentBytes: number): void;
  /** Called once for each opened one; `reason` is set. */
  streamEnded(record: StreamRecord): void;
  /** @param listener as `StreamRecord.listener`. */
  datagramDropped(listener: string, reason: DropReason): void;
}
