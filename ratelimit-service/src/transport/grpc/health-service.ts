/**
 * grpc.health.v1.Health: Check, Watch and List for envoyproxy/ratelimit's service names, `ratelimit` and the empty name
 * for the whole server.
 */
import type { ServingStatus } from "../serving-status.ts";
import type { GrpcMethod, MessageReceiver, MessageSink, StreamingMethod, UnaryMethod } from "./method.ts";
import { GrpcError, StatusCode } from "./status.ts";
import { WireError, WireReader, WireType } from "@gatewayproxy/protos/wire-reader";

const serviceNames = ["", "ratelimit"];

/** Encodes a HealthCheckResponse: field 1, one of the ServingStatus numbers. */
const responseOf = (status: number): Buffer => Buffer.from([0x08, status]);
const serving = responseOf(1);
const notServing = responseOf(2);
const serviceUnknown = responseOf(3);

/** Returns the methods, by path. */
export function healthMethods(status: ServingStatus): [path: string, method: GrpcMethod][] {
  const response = (isServing: boolean): Buffer => (isServing ? serving : notServing);
  const check: UnaryMethod = {
    kind: "unary",
    call: (message) => {
      const service = readServiceName(message);
      if (!serviceNames.includes(service)) throw new GrpcError(StatusCode.NotFound, "unknown service");
      return response(status.isServing);
    },
  };
  const watch: StreamingMethod = { kind: "streaming", open: (sink) => new Watch(sink, status, response) };
  return [
    ["/grpc.health.v1.Health/Check", check],
    ["/grpc.health.v1.Health/List", { kind: "unary", call: () => listResponse(response(status.isServing)) }],
    ["/grpc.health.v1.Health/Watch", watch],
  ];
}

/** Encodes a HealthListResponse: field 1, a map from the names to their HealthCheckResponse. */
function listResponse(response: Buffer): Buffer {
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
  readonly #status: ServingStatus;
  readonly #response: (isServing: boolean) => Buffer;
  #stop: (() => void) | undefined;

  constructor(sink: MessageSink, status: ServingStatus, response: (isServing: boolean) => Buffer) {
    this.#sink = sink;
    this.#status = status;
    this.#response = response;
  }

  message(bytes: Buffer): void {
    if (this.#stop !== undefined) throw new GrpcError(StatusCode.Internal, "Watch takes one message");
    if (serviceNames.includes(readServiceName(bytes))) {
      this.#sink.send(this.#response(this.#status.isServing));
      this.#stop = this.#status.onChange((isServing) => this.#sink.send(this.#response(isServing)));
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
