/** The client and the endpoints of a rate limit service, with the TLS settings of a Backend. */
import type {
  Endpoints as GrpcEndpoints,
  UnaryClient as GrpcUnaryClient,
} from "@gatewayproxy/grpc/client/unary-client";
import type { UpstreamTls } from "../../../../ir/snapshot.ts";

/** The endpoints of a rate limit service and the TLS settings for them. */
export type Endpoints = GrpcEndpoints<UpstreamTls>;

/** Calls a rate limit service. */
export type UnaryClient = GrpcUnaryClient<UpstreamTls>;
