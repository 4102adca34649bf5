/**
 * The form of messages in JavaScript. The loader (`load.ts`) and the generator of types (`scripts/generate-protos.ts`)
 * share these options, so that the types match the loader.
 */
import { fileURLToPath } from "node:url";

/** Folder of the `.proto` files; their imports are relative to it. */
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

/** Every file with a service or a root message that is used here. Their imports are found from them. */
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
