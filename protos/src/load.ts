/**
 * Loads the wire messages: `loadProtos("grpc/health/v1/health.proto")` gives the package definition for grpc-js and for
 * reflection, `messageOf` reads and writes one message by itself. The types stand in `@gatewayproxy/protos/gen`.
 */
import { loadSync, type MessageTypeDefinition, type PackageDefinition } from "@grpc/proto-loader";
import { messageOptions, protoDirectory, type ProtoFile } from "./options.ts";

/** The definitions of the files and of all that they import, by full name. Reads from disk; throws on a broken file. */
export function loadProtos(...files: readonly ProtoFile[]): PackageDefinition {
  return loadSync([...files], { ...messageOptions, includeDirs: [protoDirectory] });
}

/**
 * The message with that full name, as `envoy.service.ratelimit.v3.RateLimitRequest`; `Input` and `Output` are its
 * generated types. Throws when the definitions have no such message.
 */
export function messageOf<Input extends object, Output extends object>(
  definitions: PackageDefinition,
  fullName: string,
): MessageTypeDefinition<Input, Output> {
  const definition = definitions[fullName];
  if (definition === undefined || !("deserialize" in definition)) {
    throw new Error(`the loaded .proto files have no message ${fullName}`);
  }
  // The generated types say what the loader makes of exactly these files.
  return definition as unknown as MessageTypeDefinition<Input, Output>;
}
