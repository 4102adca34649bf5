/** xDS servers for tests, which send what they are reported. */
import type { ProtoGrpcType } from "@gatewayproxy/protos/gen/discovery";
import type { DiscoveryRequest__Output } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryRequest";
import type { DiscoveryResponse } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryResponse";
import type {
  RateLimitConfig,
  RateLimitConfig__Output,
} from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitConfig";
import { loadProtos, messageOf } from "@gatewayproxy/protos/load";
import { loadPackageDefinition, Server, ServerCredentials, type ServerDuplexStream } from "@grpc/grpc-js";
import { rateLimitConfigType } from "../xds-resource.ts";

type AdsStream = ServerDuplexStream<DiscoveryRequest__Output, DiscoveryResponse>;

/** A queue of items that a test awaits one by one. */
export class Inbox<T> {
  readonly #items: T[] = [];
  readonly #waiting: ((item: T) => void)[] = [];

  put(item: T): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#items.push(item);
    else next(item);
  }

  next(): Promise<T> {
    const item = this.#items.shift();
    return item === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(item);
  }
}

export const configMessage = messageOf<RateLimitConfig, RateLimitConfig__Output>(
  loadProtos("ratelimit/config/ratelimit/v3/rls_conf.proto"),
  "ratelimit.config.ratelimit.v3.RateLimitConfig",
);

/** A control plane under a test's control: it records streams and requests, and sends the test's responses. */
export async function startXdsServer(credentials = ServerCredentials.createInsecure(), port = 0) {
  const streams = new Inbox<AdsStream>();
  const requests = new Inbox<DiscoveryRequest__Output>();
  const server = new Server();
  const definitions = loadProtos("envoy/service/discovery/v3/discovery.proto");
  const { envoy } = loadPackageDefinition(definitions) as unknown as ProtoGrpcType;
  server.addService(envoy.service.discovery.v3.AggregatedDiscoveryService.service, {
    streamAggregatedResources: (stream: AdsStream) => {
      stream.on("data", (request: DiscoveryRequest__Output) => requests.put(request));
      stream.on("error", () => undefined);
      streams.put(stream);
    },
  });
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error, actual) => (error ? reject(error) : resolve(actual)));
  });
  return { port: bound, streams, requests, close: () => server.forceShutdown() };
}

/** A response with a version and its resources. */
export function response(version: string, ...configs: readonly RateLimitConfig[]): DiscoveryResponse {
  const resources = configs.map((config) => ({
    type_url: rateLimitConfigType,
    value: configMessage.serialize(config),
  }));
  return { versionInfo: version, nonce: `nonce-${version}`, typeUrl: rateLimitConfigType, resources };
}
