/**
 * One connection to an endpoint: an undici `Client`, which opens its socket with its first request, closes it when it has
 * been idle, and opens it again on use.
 */
import { isIP, type LookupFunction, type Socket } from "node:net";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { buildConnector, Client } from "undici";
import type { Endpoint, UpstreamTls } from "../ir/snapshot.ts";
import { clientTls } from "../connect/client-tls.ts";
import { refusedByEndpoint } from "./failure.ts";
import { findForbidden, guardedLookup } from "../connect/guarded-lookup.ts";
import { watchStreams } from "./http2-streams.ts";

watchStreams();

/** How an endpoint is reached. */
export interface ConnectionTarget {
  readonly endpoint: Endpoint;
  /** Absent: plain text. */
  readonly tls?: UpstreamTls;
  /** Absent: HTTP/1.1. */
  readonly protocol?: "h2";
}

export interface ConnectionTimeouts {
  readonly connectTimeoutMs: number;
  /** Longest wait for the head of an answer, and between two pieces of a body; 0 waits for ever. */
  readonly idleTimeoutMs: number;
}

export interface ConnectionOptions extends ConnectionTimeouts {
  /** Judges every address before it is connected to. */
  readonly addresses: AddressGuard;
}

/** A connection and how many calls it carries. */
export interface Connection {
  readonly client: Client;
  readonly isHttp2: boolean;
  calls: number;
  /** No call was sent on it since `EndpointPool.closeIdle` looked last. */
  isUnused: boolean;
  /** Of its socket, if it has one; undici keeps what an endpoint that leaves has taken when its client is destroyed. */
  readonly breakOff: () => void;
  /** The call whose answer has not begun, of HTTP/1.1. */
  awaiting: HeadReader | undefined;
  /** Bytes that have come on its socket. */
  readonly bytesRead: () => number;
  /** Of the socket; to be called before it is switched to another protocol. */
  readonly stopWatching: () => void;
}

/** Whoever waits for the head of an answer. */
export interface HeadReader {
  /** More bytes have come than a head may have. */
  checkHead(): void;
}

/** The error of a call that its endpoint has not looked at. */
export const refused = Object.assign(new Error("the endpoint has not taken the request"), { code: refusedByEndpoint });

/** Calls that one connection carries at once. More streams than this share a socket's loss and its one core badly. */
export function callsPerConnection({ protocol }: ConnectionTarget): number {
  return protocol === "h2" ? 100 : 1;
}

/** `host:port`, with brackets around an IPv6 address. */
export function addressOf({ host, port }: Endpoint): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * Makes a connection; nothing is sent before its first request.
 *
 * @param onLeaving called when its endpoint leaves (HTTP/2 GOAWAY): what it has taken is finished, all else fails as
 * refused, and no call must follow. undici would go on with another socket under the same client, and take the calls of
 * one for those of the other when either ends: it would send again what has been taken.
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
  // undici bounds fields, but not the reason of a status, nor interim heads together.
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
    breakOff: () => void socket?.destroy(),
    awaiting: undefined,
    bytesRead: () => socket?.bytesRead ?? 0,
    stopWatching: () => void socket?.off("readable", watch),
  };
  client.on("disconnect", () => {
    // Of a connection that has just closed nothing is left, and one of HTTP/1.1 that was switched is not undici's any more.
    if (!isHttp2 || socket?.destroyed !== false) return;
    void client.destroy(refused);
    onLeaving?.(connection);
  });
  return connection;
}

/** TLS settings that Node refuses fail the calls that need them, and nothing else. */
function safeConnectorOf(target: ConnectionTarget, options: ConnectionOptions): buildConnector.connector {
  try {
    return connectorOf(target, options);
  } catch (error) {
    return failToConnect(`${addressOf(target.endpoint)} cannot be connected to: ${String(error)}`);
  }
}

/** A connector whose every connection fails. A `Client` throws where its origin is not a URL, which a host can cause. */
function failToConnect(message: string): buildConnector.connector {
  return (_asked, callback) => process.nextTick(callback, new Error(message), null);
}

/**
 * Connects to permitted addresses only. undici would take the server's name from each request's `host`, which is the
 * client's to choose.
 */
function connectorOf(
  { protocol, tls, endpoint }: ConnectionTarget,
  { addresses, connectTimeoutMs: timeout }: ConnectionOptions,
): buildConnector.connector {
  const isHttp2 = protocol === "h2";
  const secure = tls === undefined ? undefined : clientTls(endpoint.host, tls);
  // `useH2c` is undici's; its types know it for a Client only.
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
    // As undici has it, which rewrites some hosts: 2130706433 is 127.0.0.1.
    const forbidden = findForbidden(addresses, asked.hostname, endpoint.port);
    if (forbidden !== undefined) process.nextTick(callback, forbidden, null);
    else connect(secure === undefined ? asked : { ...asked, servername: secure.servername }, callback);
  };
}
