/**
 * One connection to an endpoint: an undici `Client`, which opens its socket with its first request, closes it when it has
 * been idle, and opens it again on use.
 */
import { isIP } from "node:net";
import { buildConnector, Client } from "undici";
import type { Endpoint, UpstreamTls } from "../ir/snapshot.ts";
import { clientTls } from "./client-tls.ts";
import { resetAbandonedStreams } from "./http2-streams.ts";

resetAbandonedStreams();

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

/** A connection and how many calls it carries. */
export interface Connection {
  readonly client: Client;
  calls: number;
}

/** Calls that one connection carries at once. More streams than this share a socket's loss and its one core badly. */
export function callsPerConnection({ protocol }: ConnectionTarget): number {
  return protocol === "h2" ? 100 : 1;
}

/** `host:port`, with brackets around an IPv6 address. */
export function addressOf({ host, port }: Endpoint): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Makes a connection; nothing is sent before its first request. */
export function openConnection(target: ConnectionTarget, timeouts: ConnectionTimeouts): Connection {
  const { protocol, tls, endpoint } = target;
  const streams = callsPerConnection(target);
  const client = new Client(`${tls === undefined ? "http" : "https"}://${addressOf(endpoint)}`, {
    pipelining: streams,
    headersTimeout: timeouts.idleTimeoutMs,
    bodyTimeout: timeouts.idleTimeoutMs,
    maxHeaderSize: 64 * 1024,
    allowH2: protocol === "h2",
    connect: connectorOf(target, timeouts.connectTimeoutMs),
    ...(protocol === "h2" && { h2Options: { maxConcurrentStreams: streams } }),
  });
  return { client, calls: 0 };
}

/** undici would take the server's name from each request's `host`, which is the client's to choose. */
function connectorOf({ protocol, tls, endpoint }: ConnectionTarget, timeout: number): buildConnector.connector {
  const isHttp2 = protocol === "h2";
  const secure = tls === undefined ? undefined : clientTls(endpoint.host, tls);
  // `useH2c` is undici's; its types know it for a Client only.
  const options: buildConnector.BuildOptions & { readonly useH2c: boolean } = {
    ...secure,
    timeout,
    allowH2: isHttp2,
    preferH2: isHttp2,
    useH2c: isHttp2 && tls === undefined,
  };
  const connect = buildConnector(options);
  if (secure === undefined) return connect;
  const { servername } = secure;
  return (asked, callback) => connect({ ...asked, servername }, callback);
}
