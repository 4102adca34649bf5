/**
 * A connection to an endpoint: an undici `Client`, which opens its socket with its first request, closes it when it is idle,
 * and opens it again on use.
 */
import { isIP, type LookupFunction, type Socket } from "node:net";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { buildConnector, Client } from "undici";
import type { Endpoint, UpstreamTls } from "../ir/snapshot.ts";
import { clientTls } from "../connect/client-tls.ts";
import { unprocessedByEndpoint } from "./failure.ts";
import { findForbidden, guardedLookup } from "../connect/guarded-lookup.ts";
import { watchStreams } from "./http2-streams.ts";

watchStreams();

/** How to connect to an endpoint. */
export interface ConnectionTarget {
  readonly endpoint: Endpoint;
  /** Absent: plain text. */
  readonly tls?: UpstreamTls;
  /** Absent: HTTP/1.1. */
  readonly protocol?: "h2";
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
  /** Checks every address before a connection. */
  readonly addresses: AddressGuard;
}

/** A connection and how many calls it carries. */
export interface Connection {
  readonly client: Client;
  readonly isHttp2: boolean;
  calls: number;
  /** Whether no call was sent on it since the last `EndpointPool.closeIdle`. */
  isUnused: boolean;
  /** Destroys its socket. undici keeps accepted streams of a leaving endpoint when its client is destroyed. */
  readonly destroySocket: () => void;
  /** The HTTP/1.1 call without a response so far. */
  awaiting: HeadReader | undefined;
  /** The bytes received on its socket. */
  readonly bytesRead: () => number;
  /** Removes the listeners from the socket, before it is switched to another protocol. */
  readonly stopWatching: () => void;
}

/** A call that waits for the head of a response. */
export interface HeadReader {
  /** Called when bytes have arrived, to check the length of the head. */
  checkHead(): void;
}

/** The error of a call that its endpoint has not processed. */
export const unprocessed = Object.assign(new Error("the endpoint has not processed the request"), {
  code: unprocessedByEndpoint,
});

/** Maximum number of concurrent calls of a connection. More streams would all fail with it, and share its one core. */
export function callsPerConnection({ protocol }: ConnectionTarget): number {
  return protocol === "h2" ? 100 : 1;
}

/** `host:port`, with brackets around an IPv6 address. */
export function addressOf({ host, port }: Endpoint): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * Creates a connection. Nothing is sent before its first request.
 *
 * @param onLeaving called when its endpoint leaves (HTTP/2 GOAWAY): accepted calls finish, all others fail as unprocessed,
 * and no call must follow. undici would continue with another socket in the same client, confuse the calls of both when
 * either ends, and send accepted calls again.
 */
export function openConnection(
  target: ConnectionTarget,
  options: ConnectionOptions,
  onLeaving?: (connection: Connection) => void,
): Connection {
  const { protocol, tls, endpoint } = target;
  const streams = callsPerConnection(target);
  const origin = `${tls === undefined ? "http" : "https"}://${addressOf(endpoint)}`;
  const isUrl = URL.canParse(origin);
  const connect = isUrl
    ? safeConnectorOf(target, options)
    : failToConnect(`${addressOf(endpoint)} is not a valid address`);
  const isHttp2 = protocol === "h2";
  let socket: Socket | undefined;
  // undici bounds fields, but neither the reason phrase nor the total of interim heads.
  const watch = (): void => connection.awaiting?.checkHead();
  const client = new Client(isUrl ? origin : "http://invalid", {
    pipelining: streams,
    headersTimeout: options.idleTimeoutMs,
    bodyTimeout: options.idleTimeoutMs,
    maxHeaderSize: 64 * 1024,
    allowH2: protocol === "h2",
    connect: (asked, callback) =>
      connect(asked, (...result) => {
        socket = result[1] ?? undefined;
        if (!isHttp2) socket?.on("readable", watch);
        callback(...result);
      }),
    ...(protocol === "h2" && { h2Options: { maxConcurrentStreams: streams } }),
  });
  const connection: Connection = {
    client,
    isHttp2,
    calls: 0,
    isUnused: false,
    destroySocket: () => void socket?.destroy(),
    awaiting: undefined,
    bytesRead: () => socket?.bytesRead ?? 0,
    stopWatching: () => void socket?.off("readable", watch),
  };
  client.on("disconnect", () => {
    // A closed connection has no calls left, and a switched HTTP/1.1 connection does not belong to undici any more.
    if (!isHttp2 || socket?.destroyed !== false) return;
    void client.destroy(unprocessed);
    onLeaving?.(connection);
  });
  return connection;
}

/** TLS settings that Node rejects only fail the calls with them. */
function safeConnectorOf(target: ConnectionTarget, options: ConnectionOptions): buildConnector.connector {
  try {
    return connectorOf(target, options);
  } catch (error) {
    return failToConnect(`${addressOf(target.endpoint)} cannot be connected to: ${String(error)}`);
  }
}

/** Returns a connector that always fails. A `Client` throws if its origin is not a URL, which a host can cause. */
function failToConnect(message: string): buildConnector.connector {
  return (_asked, callback) => process.nextTick(callback, new Error(message), null);
}

/**
 * Returns a connector for permitted addresses. undici would use the `host` of each request, which the client chooses, as the
 * server name.
 */
function connectorOf(
  { protocol, tls, endpoint }: ConnectionTarget,
  { addresses, connectTimeoutMs: timeout }: ConnectionOptions,
): buildConnector.connector {
  const isHttp2 = protocol === "h2";
  const secure = tls === undefined ? undefined : clientTls(endpoint.host, tls);
  // `useH2c` is an option of undici, which its types have only for a Client.
  const options: buildConnector.BuildOptions & { readonly useH2c: boolean; readonly lookup: LookupFunction } = {
    ...secure,
    timeout,
    lookup: guardedLookup(addresses, endpoint.port),
    allowH2: isHttp2,
    preferH2: isHttp2,
    useH2c: isHttp2 && tls === undefined,
  };
  const connect = buildConnector(options);
  return (asked, callback) => {
    // The host of undici, which rewrites some hosts: 2130706433 is 127.0.0.1.
    const forbidden = findForbidden(addresses, asked.hostname, endpoint.port);
    if (forbidden !== undefined) process.nextTick(callback, forbidden, null);
    else connect(secure === undefined ? asked : { ...asked, servername: secure.servername }, callback);
  };
}
