/**
 * Loads the protobuf messages. `loadProtos("grpc/health/v1/health.proto")` returns the package definition for grpc-js
 * and for reflection; `messageOf` returns the codec of one message. Types are in `@gatewayproxy/protos/gen`.
 */
import { loadSync, type MessageTypeDefinition, type PackageDefinition } from "@grpc/proto-loader";
import { messageOptions, protoDirectory, type ProtoFile } from "./options.ts";

/**
 * Returns the definitions of the files and of all imports, by full name. Reads from disk; throws on an invalid file.
 */
export function loadProtos(...files: readonly ProtoFile[]): PackageDefinition {
  return loadSync([...files], { ...messageOptions, includeDirs: [protoDirectory] });
}

/**
 * Returns the message with that full name, such as `envoy.service.ratelimit.v3.RateLimitRequest`; `Input` and `Output`
 * are its generated types. Throws when the definitions do not contain the message.
 */
export function messageOf<Input extends object, Output extends object>(
  definitions: PackageDefinition,
  fullName: string,
): MessageTypeDefinition<Input, Output> {
  const definition = definitions[fullName];
  if (definition === undefined || !("deserialize" in definition)) {
    throw new Error(`the loaded .proto files have no message ${fullName}`);
  }
  // The loader builds the types that are generated from exactly these files.
  return definition as unknown as MessageTypeDefinition<Input, Output>;
}
