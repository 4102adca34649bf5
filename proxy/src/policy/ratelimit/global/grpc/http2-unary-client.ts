/** Unary gRPC calls to a rate limit service, over sockets to permitted addresses. */
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { ConnectionOptions } from "@gatewayproxy/grpc/client/endpoint-connection";
import { UnaryGrpcClient } from "@gatewayproxy/grpc/client/unary-grpc-client";
import type { UpstreamTls } from "../../../../ir/snapshot.ts";
import { openServiceSocket } from "./open-socket.ts";

/** The services of a client. */
export interface Http2UnaryClientOptions extends Omit<ConnectionOptions<UpstreamTls>, "openSocket"> {
  /** Rejects addresses that the proxy must not connect to. */
  readonly addresses: AddressGuard;
}

/** A client of one rate limit service. */
export class Http2UnaryClient extends UnaryGrpcClient<UpstreamTls> {
  constructor(options: Http2UnaryClientOptions) {
    const { addresses, clock } = options;
    super({
      ...options,
      openSocket: (endpoint, tls, listener) => openServiceSocket({ endpoint, tls, addresses, clock }, listener),
    });
  }
}
