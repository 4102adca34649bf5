/** grpc.health.v1.Health: Check, Watch and List. */
import type { GrpcMethod, MessageReceiver, MessageSink, StreamingMethod, UnaryMethod } from "./method.ts";
import { GrpcError, StatusCode } from "../status.ts";
import { WireError, WireReader, WireType } from "@gatewayproxy/protos/wire-reader";

/** Whether a server accepts calls. */
export interface HealthStatus {
  readonly isServing: boolean;
  /** Calls `listener` with each change until the returned function is called. */
  onChange(listener: (isServing: boolean) => void): () => void;
}

/** Encodes a HealthCheckResponse: field 1, one of the ServingStatus numbers. */
const responseOf = (status: number): Buffer => Buffer.from([0x08, status]);
const serving = responseOf(1);
const notServing = responseOf(2);
const serviceUnknown = responseOf(3);

function statusResponse(isServing: boolean): Buffer {
  return isServing ? serving : notServing;
}

/**
 * Returns the methods, by path.
 *
 * @param serviceNames the services, which all have the same `status`; the empty name is that of the whole server.
 */
export function healthMethods(
  status: HealthStatus,
  serviceNames: readonly string[],
): [path: string, method: GrpcMethod][] {
  const check: UnaryMethod = {
    kind: "unary",
    call: (message) => {
      const service = readServiceName(message);
      if (!serviceNames.includes(service)) throw new GrpcError(StatusCode.NotFound, "unknown service");
      return statusResponse(status.isServing);
    },
  };
  const watch: StreamingMethod = { kind: "streaming", open: (sink) => new Watch(sink, status, serviceNames) };
  return [
    ["/grpc.health.v1.Health/Check", check],
    [
      "/grpc.health.v1.Health/List",
      { kind: "unary", call: () => listResponse(serviceNames, statusResponse(status.isServing)) },
    ],
    ["/grpc.health.v1.Health/Watch", watch],
  ];
}

/** Encodes a HealthListResponse: field 1, a map from the names to their HealthCheckResponse. */
function listResponse(serviceNames: readonly string[], response: Buffer): Buffer {
  return Buffer.concat(
    serviceNames.map((name) => {
      const entry = Buffer.concat([field(1, Buffer.from(name)), field(2, response)]);
      return field(1, entry);
    }),
  );
}

/** Encodes a field of fewer than 128 bytes. */
function field(number: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | WireType.Bytes, bytes.length]), bytes]);
}

/** Sends the status at once and then each change, until the client cancels. */
class Watch implements MessageReceiver {
  readonly #sink: MessageSink;
  readonly #status: HealthStatus;
  readonly #serviceNames: readonly string[];
  #stop: (() => void) | undefined;

  constructor(sink: MessageSink, status: HealthStatus, serviceNames: readonly string[]) {
    this.#sink = sink;
    this.#status = status;
    this.#serviceNames = serviceNames;
  }

  message(bytes: Buffer): void {
    if (this.#stop !== undefined) throw new GrpcError(StatusCode.Internal, "Watch takes one message");
    if (this.#serviceNames.includes(readServiceName(bytes))) {
      this.#sink.send(statusResponse(this.#status.isServing));
      this.#stop = this.#status.onChange((isServing) => this.#sink.send(statusResponse(isServing)));
    } else {
      this.#sink.send(serviceUnknown);
      this.#stop = () => undefined;
    }
  }

  ended(): void {
    if (this.#stop === undefined) this.#sink.fail(new GrpcError(StatusCode.Internal, "Watch takes one message"));
  }

  cancelled(): void {
    this.#stop?.();
  }
}

/** Decodes a HealthCheckRequest: field 1, the service's name. */
function readServiceName(message: Buffer): string {
  try {
    const reader = new WireReader(message);
    let name = "";
    while (reader.position < message.length) {
      const tag = reader.readTag(message.length);
      if (tag === ((1 << 3) | WireType.Bytes)) name = reader.readString(message.length);
      else reader.skip(tag, message.length);
    }
    return name;
  } catch (cause) {
    if (!(cause instanceof WireError)) throw cause;
    throw new GrpcError(StatusCode.Internal, `reading a HealthCheckRequest: ${cause.message}`, { cause });
  }
}
