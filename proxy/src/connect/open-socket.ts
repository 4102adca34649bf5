/** Opens TCP and TLS connections to permitted addresses. */
import { connect as connectTcp, isIP, Socket, type TcpNetConnectOpts } from "node:net";
import { connect as connectTls } from "node:tls";
import { boundKeyUpdates } from "@gatewayproxy/http/key-updates";
import { readsOf, type ReceiveBytes } from "@gatewayproxy/http/socket-reads";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { UpstreamTls } from "../ir/snapshot.ts";
import { clientTls } from "./client-tls.ts";
import { countHalfClosed, EndpointSocket, type LocalPort } from "./endpoint-socket.ts";
import { findForbidden, guardedLookup } from "./guarded-lookup.ts";

/** Where to connect to, and how. */
export interface SocketTarget {
  /** A host name or an IP address. */
  readonly host: string;
  readonly port: number;
  /** Absent: plain text. */
  readonly tls: UpstreamTls | undefined;
  /** The protocol to offer in the TLS handshake (RFC 7301); absent: none. */
  readonly protocol?: "http/1.1" | "h2" | undefined;
  /** Whether each side may end before the other; absent: the end of the server ends the connection. */
  readonly allowHalfOpen?: boolean;
  /** Checks every address before a connection to it. */
  readonly addresses: AddressGuard;
  /** The clock of the bound of key changes. */
  readonly clock: Clock;
  /** The TLS session to resume; absent for a full handshake. */
  readonly session?: Buffer | undefined;
  /** Absent: bytes are received as events of the socket. */
  readonly receive?: ReceiveBytes | undefined;
  /** Absent: clients do not cause the connection, so that its port is not counted. */
  readonly localPort?: LocalPort | undefined;
}

/** The delay of the first probe of an idle connection. */
const tcpKeepAliveMs = 60_000;

/**
 * Starts to connect. Errors and the end are events of the socket.
 *
 * @param onConnect called when the socket is connected, and its TLS handshake is done. Its parameter is the selected
 *   protocol; undefined without TLS, or if the server selected none.
 * @throws `Error` if the host is neither a name nor an address, or OpenSSL rejects the TLS settings.
 */
export function openSocket(target: SocketTarget, onConnect: (protocol: string | undefined) => void): Socket {
  const { port, tls, protocol, addresses, clock, session, receive, allowHalfOpen = false, localPort } = target;
  const host = canonicalHost(target.host);
  const forbidden = findForbidden(addresses, host, port);
  if (forbidden !== undefined) return new Socket().destroy(forbidden);
  const address: TcpNetConnectOpts = {
    host,
    port,
    lookup: guardedLookup(addresses, port),
    allowHalfOpen,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: tcpKeepAliveMs,
    ...(receive !== undefined && { onread: readsOf(receive, tls !== undefined) }),
  };
  if (tls === undefined) {
    const socket =
      localPort === undefined ? connectTcp(address) : new EndpointSocket(address, localPort).connect(address);
    socket.once("connect", () => onConnect(undefined));
    return socket;
  }
  const offered = protocol === undefined ? {} : { ALPNProtocols: [protocol] };
  const socket = connectTls({ ...address, ...clientTls(target.host, tls), ...offered, session });
  if (localPort !== undefined) countHalfClosed(socket, localPort);
  socket.once("secureConnect", () => {
    boundKeyUpdates(socket, clock);
    onConnect(socket.alpnProtocol || undefined);
  });
  return socket;
}

/**
 * Returns a host in the spelling of URLs, in which `127.1` and `2130706433` are the address 127.0.0.1 (WHATWG URL
 * §3.5).
 */
function canonicalHost(host: string): string {
  if (isIP(host) !== 0) return host;
  const url = `http://${host}`;
  if (!URL.canParse(url)) throw new Error(`${JSON.stringify(host)} is neither a host name nor an address`);
  return new URL(url).hostname;
}
