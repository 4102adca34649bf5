/** grpc-js clients for tests, by method and message. Many services of users use it too. */
import { loadProtos } from "@gatewayproxy/protos/load";
import type { ProtoGrpcType as HealthTypes } from "@gatewayproxy/protos/gen/health";
import type { ProtoGrpcType as RateLimitTypes } from "@gatewayproxy/protos/gen/rls";
import { loadPackageDefinition } from "@grpc/grpc-js";

// The generated types describe exactly these files.
const rateLimit = loadPackageDefinition(
  loadProtos("envoy/service/ratelimit/v3/rls.proto"),
) as unknown as RateLimitTypes;
const health = loadPackageDefinition(loadProtos("grpc/health/v1/health.proto")) as unknown as HealthTypes;

/** Client classes of grpc-js. */
export const RateLimitClient = rateLimit.envoy.service.ratelimit.v3.RateLimitService;
export const HealthClient = health.grpc.health.v1.Health;
