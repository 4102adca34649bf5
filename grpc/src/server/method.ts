/** The methods of a gRPC server. They receive and return encoded messages; implementations decode and encode them. */
import type { GrpcError } from "../status.ts";

/** The call of a method, as its client sees it. */
export interface CallState {
  /** Whether the client does not get the response any more: it has cancelled the call, or its deadline has passed. */
  readonly isDone: boolean;
}

/**
 * A method that returns one message for one message. The request's bytes are valid during the call only. A thrown or
 * rejected `GrpcError` becomes the call's status; any other error is reported and becomes INTERNAL.
 */
export interface UnaryMethod {
  readonly kind: "unary";
  /** Whether `call` gets the fields of calls; absent: they are not kept. */
  readonly readsFields?: boolean | undefined;
  /**
   * @param fields the headers of the call, names in lower case and values in turn; empty unless `readsFields` is set.
   * @param state changes until the response is returned.
   */
  call(message: Buffer, fields: readonly string[], state: CallState): Uint8Array | Promise<Uint8Array>;
}

/** A method that receives and sends any number of messages. */
export interface StreamingMethod {
  readonly kind: "streaming";
  open(sink: MessageSink): MessageReceiver;
}

/** A unary or a streaming method. */
export type GrpcMethod = UnaryMethod | StreamingMethod;

/** The server's side of a streaming call. After `end` or `fail`, calls have no effect. */
export interface MessageSink {
  send(message: Uint8Array): void;
  /** Ends the call with status OK. */
  end(): void;
  /** Ends the call with the status of the error. */
  fail(error: GrpcError): void;
}

/** The client's side of a streaming call. */
export interface MessageReceiver {
  /** Receives a message; its bytes are valid during the call only. A thrown `GrpcError` ends the call. */
  message(bytes: Buffer): void;
  /** Called when the client has sent its last message. */
  ended(): void;
  /** Called when the call was cancelled or has ended; no further calls follow. */
  cancelled(): void;
}

/** Methods by path, such as `/grpc.health.v1.Health/Check`. */
export type GrpcMethods = ReadonlyMap<string, GrpcMethod>;
