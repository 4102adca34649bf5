/** Unary gRPC calls, independent of the transport. */

/** The address of an endpoint: a host name or an IP address without brackets, and a port. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** The endpoints of a service and the TLS settings for them, which only the opener of sockets reads. */
export interface Endpoints<Tls> {
  readonly endpoints: readonly Endpoint[];
  /** Absent: plain text. */
  readonly tls?: Tls | undefined;
}

/** Calls a service with several endpoints. It chooses the endpoint of each call. */
export interface UnaryClient<Tls> {
  /** Sets the endpoints to call. */
  update(endpoints: Endpoints<Tls>): void;
  /**
   * Sends one call. `done` is called exactly once, at the latest after `timeoutMs`, and within this call only if
   * nothing can be sent.
   *
   * @param path `/package.Service/Method`
   * @param message A protobuf message without gRPC framing.
   * @param fields Metadata of this call: names in lower case and values, in turn.
   */
  call(
    path: string,
    message: Buffer,
    timeoutMs: number,
    done: (outcome: CallOutcome) => void,
    fields?: readonly string[],
  ): void;
  /** Closes every connection; calls in progress fail. */
  close(): void;
}

/** The response as a protobuf message without gRPC framing, or the failure. */
export type CallOutcome = { readonly kind: "responded"; readonly message: Buffer } | CallFailure;

/** The failure of a call. */
export interface CallFailure {
  readonly kind: "failed";
  readonly cause: FailureCause;
  /** The message for the log. It contains no data of requests. */
  readonly message: string;
}

/** Why a call got no usable response. */
export type FailureCause =
  /** No response within the timeout. */
  | "timeout"
  /** No connection, a connection that closed, or a service that reports that it cannot serve. */
  | "unavailable"
  /** The service reports a failure, without saying whether this call or the service is the cause (INTERNAL). */
  | "failed"
  /** The service rejects the call itself: a setting is wrong in the gateway or in the service. */
  | "rejected"
  /** The call is too large for the service, or one too many now. The service may accept it later. */
  | "exhausted"
  /** The response is malformed. */
  | "garbage"
  /** The service responds with overall code UNKNOWN. */
  | "unknown";

/** Returns a failure. @param message for the log. */
export function callFailure(cause: FailureCause, message: string): CallFailure {
  return { kind: "failed", cause, message };
}
