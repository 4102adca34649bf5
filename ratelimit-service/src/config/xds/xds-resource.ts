/** A `RateLimitConfig` resource of an xDS server → a `DomainSpec`. Field numbers and types: protos/proto/ratelimit. */
import type { Any__Output } from "@gatewayproxy/protos/gen/google/protobuf/Any";
import type { Struct__Output } from "@gatewayproxy/protos/gen/google/protobuf/Struct";
import type { Value__Output } from "@gatewayproxy/protos/gen/google/protobuf/Value";
import type {
  RateLimitConfig,
  RateLimitConfig__Output,
} from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitConfig";
import type { RateLimitDescriptor__Output } from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitDescriptor";
import type { RateLimitPolicy__Output } from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitPolicy";
import { loadProtos, messageOf } from "@gatewayproxy/protos/load";
import type { JsonObject, JsonValue } from "../../limiter/rate-limit.ts";
import type { DescriptorSpec, DomainSpec, RateLimitSpec } from "../descriptor-spec.ts";

/** The type that the service subscribes to. */
export const rateLimitConfigType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

const { deserialize } = messageOf<RateLimitConfig, RateLimitConfig__Output>(
  loadProtos("ratelimit/config/ratelimit/v3/rls_conf.proto"),
  "ratelimit.config.ratelimit.v3.RateLimitConfig",
);

/** Reads a resource; throws with the reason when its bytes are not of the type. */
export function readXdsResource({ type_url: type, value }: Any__Output): DomainSpec {
  if (type !== rateLimitConfigType) throw new Error(`resource of type ${type}, accepted is ${rateLimitConfigType}`);
  const { name, domain, descriptors } = deserialize(value);
  return { key: name, domain, descriptors: descriptors.map(readDescriptor) };
}

function readDescriptor(descriptor: RateLimitDescriptor__Output): DescriptorSpec {
  const { key, value, rateLimit, descriptors, shadowMode, quotaMode, detailedMetric, metadata } = descriptor;
  return {
    key,
    value,
    ...(rateLimit === null ? {} : { rateLimit: readPolicy(rateLimit) }),
    descriptors: descriptors.map(readDescriptor),
    shadowMode,
    quotaMode,
    detailedMetric,
    // The resource has no fields for these two.
    valueToMetric: false,
    shareThreshold: false,
    ...(metadata === null ? {} : { metadata: readStruct(metadata) }),
  };
}

/** A unit that the enum does not have comes as its number, which the generated type leaves out. */
type Policy = Omit<RateLimitPolicy__Output, "unit"> & { readonly unit: string | number };

function readPolicy({ unit, requestsPerUnit, unlimited, name, replaces }: Policy): RateLimitSpec {
  return { unit: String(unit), requestsPerUnit, unitMultiplier: 1, unlimited, name, replaces };
}

function readStruct({ fields }: Struct__Output): JsonObject {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, readValue(value)]));
}

function readValue({ kind, ...value }: Value__Output): JsonValue {
  switch (kind) {
    case "numberValue":
      return value.numberValue ?? 0;
    case "stringValue":
      return value.stringValue ?? "";
    case "boolValue":
      return value.boolValue ?? false;
    case "structValue":
      return readStruct(value.structValue ?? { fields: {} });
    case "listValue":
      return (value.listValue?.values ?? []).map(readValue);
    case "nullValue":
    case undefined:
      break;
  }
  return null;
}
