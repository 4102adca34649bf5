/** Responses of server reflection: services and the descriptors of their messages. Loads the messages. */
import { type DescriptorFiles, describeFiles } from "@gatewayproxy/protos/descriptor-files";
import type {
  ServerReflectionRequest,
  ServerReflectionRequest__Output,
} from "@gatewayproxy/protos/gen/grpc/reflection/v1/ServerReflectionRequest";
import type {
  ServerReflectionResponse,
  ServerReflectionResponse__Output,
} from "@gatewayproxy/protos/gen/grpc/reflection/v1/ServerReflectionResponse";
import { loadProtos, messageOf } from "@gatewayproxy/protos/load";
import type { ProtoFile } from "@gatewayproxy/protos/options";
import type { MessageReceiver, MessageSink } from "./method.ts";
import { GrpcError, StatusCode } from "../status.ts";

/** The server reflection of some files. */
export class Reflection {
  readonly #files: DescriptorFiles;
  readonly #request;
  readonly #response;

  /** @param files the paths of the described files, as their imports name them. */
  constructor(files: readonly ProtoFile[]) {
    this.#files = describeFiles(...files);
    const definitions = loadProtos("grpc/reflection/v1/reflection.proto");
    this.#request = messageOf<ServerReflectionRequest, ServerReflectionRequest__Output>(
      definitions,
      "grpc.reflection.v1.ServerReflectionRequest",
    );
    this.#response = messageOf<ServerReflectionResponse, ServerReflectionResponse__Output>(
      definitions,
      "grpc.reflection.v1.ServerReflectionResponse",
    );
  }

  /** Starts a reflection call, which responds to each message with one. */
  open(sink: MessageSink): MessageReceiver {
    return {
      message: (bytes) => sink.send(this.#response.serialize(this.#reply(this.#read(bytes)))),
      ended: () => sink.end(),
      cancelled: () => undefined,
    };
  }

  #read(bytes: Buffer): ServerReflectionRequest__Output {
    try {
      return this.#request.deserialize(bytes);
    } catch (cause) {
      throw new GrpcError(StatusCode.Internal, `reading a ServerReflectionRequest: ${String(cause)}`, { cause });
    }
  }

  #reply(request: ServerReflectionRequest__Output): ServerReflectionResponse {
    const response = { validHost: request.host, originalRequest: request };
    switch (request.messageRequest) {
      case "listServices":
        return { ...response, listServicesResponse: { service: this.#files.services.map((name) => ({ name })) } };
      case "fileByFilename":
        return { ...response, ...filesOrError(this.#files.ofFile(request.fileByFilename ?? ""), "file") };
      case "fileContainingSymbol":
        return { ...response, ...filesOrError(this.#files.ofSymbol(request.fileContainingSymbol ?? ""), "symbol") };
      case "allExtensionNumbersOfType":
      case "fileContainingExtension":
        // proto3 has no extensions.
        return { ...response, ...filesOrError(undefined, "extension") };
      case undefined:
        break;
    }
    throw new GrpcError(StatusCode.InvalidArgument, "a reflection request without message_request");
  }
}

function filesOrError(files: readonly Uint8Array[] | undefined, subject: string): ServerReflectionResponse {
  return files === undefined
    ? { errorResponse: { errorCode: StatusCode.NotFound, errorMessage: `${subject} not found` } }
    : { fileDescriptorResponse: { fileDescriptorProto: [...files].map((file) => Buffer.from(file)) } };
}
