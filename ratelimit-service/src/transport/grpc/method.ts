/** What a gRPC server serves: methods by path, over plain bytes. Codecs and meaning belong to whoever supplies them. */
import type { GrpcError } from "./status.ts";

/**
 * Answers one message with one message. The request's bytes are valid during the call only. A thrown or rejected
 * `GrpcError` becomes the call's status; anything else becomes INTERNAL and a report.
 */
export interface UnaryMethod {
  readonly kind: "unary";
  call(message: Buffer): Uint8Array | Promise<Uint8Array>;
}

/** Answers any number of messages with any number of messages. */
export interface StreamingMethod {
  readonly kind: "streaming";
  open(sink: MessageSink): MessageReceiver;
}

/** One of the two. */
export type GrpcMethod = UnaryMethod | StreamingMethod;

/** The server's half of a streaming call; after `end` or `fail` nothing more is sent. */
export interface MessageSink {
  send(message: Uint8Array): void;
  /** Ends with status OK. */
  end(): void;
  fail(error: GrpcError): void;
}

/** The client's half of a streaming call. */
export interface MessageReceiver {
  /** The bytes are valid during the call only. A thrown `GrpcError` ends the call with it. */
  message(bytes: Buffer): void;
  /** The client will send no more. */
  ended(): void;
  /** The client is gone, or the call is over; nothing follows. */
  cancelled(): void;
}

/** Methods by path, as `/grpc.health.v1.Health/Check`. */
export type GrpcMethods = ReadonlyMap<string, GrpcMethod>;
