/**
 * How messages look in JavaScript: one statement for the loader (`load.ts`) and for the generator of the types
 * (`scripts/generate-protos.ts`), so that the types say what the loader does.
 */
import { fileURLToPath } from "node:url";

/** Where the `.proto` files stand; imports inside them are relative to it. */
export const protoDirectory: string = fileURLToPath(new URL("../proto", import.meta.url));

/**
 * camelCase names, 64-bit integers and enum values as strings (neither loses anything), every absent scalar as its
 * default, an absent message as `null`, oneofs with their discriminating field.
 */
export const messageOptions = {
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
} as const;

/** Every file with a service or a root message of ours; what they import is found from them. */
export const protoFiles = [
  "envoy/service/ratelimit/v3/rls.proto",
  "envoy/service/discovery/v3/discovery.proto",
  "grpc/health/v1/health.proto",
  "grpc/reflection/v1/reflection.proto",
  "grpc/reflection/v1alpha/reflection.proto",
  "ratelimit/config/ratelimit/v3/rls_conf.proto",
] as const;

/** One of the files that `loadProtos` accepts. */
export type ProtoFile = (typeof protoFiles)[number];
