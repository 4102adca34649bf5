/** Opens the connection to an endpoint of a rate limit service. */
import type { Socket } from "node:net";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { SocketListener } from "@gatewayproxy/grpc/client/endpoint-connection";
import type { Endpoint } from "@gatewayproxy/grpc/client/unary-client";
import type { UpstreamTls } from "../../../../ir/snapshot.ts";
import { openSocket } from "../../../../connect/open-socket.ts";

/** The endpoint to connect to. */
export interface ServiceTarget {
  readonly endpoint: Endpoint;
  /** Absent: plain text. */
  readonly tls: UpstreamTls | undefined;
  /** Checks every address before a connection to it. */
  readonly addresses: AddressGuard;
  readonly clock: Clock;
}

/** Starts to connect. Errors and the end are events of the socket. */
export function openServiceSocket({ endpoint, tls, ...services }: ServiceTarget, listener: SocketListener): Socket {
  const { host, port } = endpoint;
  const receive = (bytes: Buffer): boolean => {
    listener.onRead(bytes);
    return true;
  };
  return openSocket({ ...services, host, port, tls, protocol: "h2", receive }, (protocol) => {
    if (tls === undefined || protocol === "h2") listener.onConnect();
    else listener.onNotHttp2();
  });
}
