/** Opens the TCP or TLS connection to an endpoint of a service. */
import { connect as connectTcp, type OnReadOpts, Socket, type TcpNetConnectOpts } from "node:net";
import { connect as connectTls } from "node:tls";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { SocketListener } from "@gatewayproxy/grpc/client/endpoint-connection";
import type { Endpoint } from "@gatewayproxy/grpc/client/unary-client";
import type { UpstreamTls } from "../../../../ir/snapshot.ts";
import { clientTls } from "../../../../connect/client-tls.ts";
import { findForbidden, guardedLookup } from "../../../../connect/guarded-lookup.ts";

/** Size of the buffer of all reads of a socket. */
const readBytes = 65_536;

/** The endpoint to connect to. */
export interface SocketTarget {
  readonly endpoint: Endpoint;
  /** Absent: plain text. */
  readonly tls: UpstreamTls | undefined;
  /** Checks every address before a connection to it. */
  readonly addresses: AddressGuard;
}

/** Starts to connect. Errors and the end are events of the socket. */
export function openSocket({ endpoint, tls, addresses }: SocketTarget, listener: SocketListener): Socket {
  const { host, port } = endpoint;
  const forbidden = findForbidden(addresses, host, port);
  if (forbidden !== undefined) return new Socket().destroy(forbidden);
  const buffer = Buffer.allocUnsafeSlow(readBytes);
  const onread: OnReadOpts = {
    buffer,
    callback: (length) => {
      listener.onRead(buffer.subarray(0, length));
      return true;
    },
  };
  const address: TcpNetConnectOpts & { onread: OnReadOpts } = {
    host,
    port,
    lookup: guardedLookup(addresses, port),
    noDelay: true,
    onread,
  };
  if (tls === undefined) {
    const socket = connectTcp(address);
    socket.once("connect", listener.onConnect);
    return socket;
  }
  const socket = connectTls({ ...address, ...clientTls(host, tls), ALPNProtocols: ["h2"] });
  socket.once("secureConnect", () => {
    if (socket.alpnProtocol === "h2") listener.onConnect();
    else listener.onNotHttp2();
  });
  return socket;
}
