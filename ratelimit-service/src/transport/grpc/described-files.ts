import type { ProtoFile } from "@gatewayproxy/protos/options";

/** The files with the services of the gRPC port, which server reflection describes. */
export const describedFiles: readonly ProtoFile[] = [
  "envoy/service/ratelimit/v3/rls.proto",
  "grpc/health/v1/health.proto",
  "grpc/reflection/v1/reflection.proto",
  "grpc/reflection/v1alpha/reflection.proto",
];
