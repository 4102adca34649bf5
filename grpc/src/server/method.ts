/** The methods of a gRPC server, by path, over plain bytes. The implementations supply codecs and meaning. */
import type { GrpcError } from "../status.ts";

/**
 * Returns one message for one message. The request's bytes are valid during the call only. A thrown or rejected
 * `GrpcError` becomes the call's status; any other error is reported and becomes INTERNAL.
 */
export interface UnaryMethod {
  readonly kind: "unary";
  call(message: Buffer): Uint8Array | Promise<Uint8Array>;
}

/** Returns any number of messages for any number of messages. */
export interface StreamingMethod {
  readonly kind: "streaming";
  open(sink: MessageSink): MessageReceiver;
}

/** A unary or a streaming method. */
export type GrpcMethod = UnaryMethod | StreamingMethod;

/** The server's half of a streaming call. After `end` or `fail` nothing more is sent. */
export interface MessageSink {
  send(message: Uint8Array): void;
  /** Ends the call with status OK. */
  end(): void;
  fail(error: GrpcError): void;
}

/** The client's half of a streaming call. */
export interface MessageReceiver {
  /** Receives a message; its bytes are valid during the call only. A thrown `GrpcError` ends the call. */
  message(bytes: Buffer): void;
  /** The client has sent its last message. */
  ended(): void;
  /** The call was cancelled or has ended; no further calls follow. */
  cancelled(): void;
}

/** Methods by path, such as `/grpc.health.v1.Health/Check`. */
export type GrpcMethods = ReadonlyMap<string, GrpcMethod>;
