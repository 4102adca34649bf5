/**
 * The xDS server of Envoy Gateway's rate limit service, in Envoy Gateway's place: the state of the world of
 * `RateLimitConfig` over one ADS stream, by mutual TLS, for the node `envoy-ratelimit` alone. The resources are those of
 * /configs/configs.json; an edit is sent as a new version.
 */
import { loadProtos, messageOf } from "@gatewayproxy/protos/load";
import { loadPackageDefinition, Server, ServerCredentials, type ServerDuplexStream } from "@grpc/grpc-js";
import type { ProtoGrpcType } from "@gatewayproxy/protos/gen/discovery";
import type { DiscoveryRequest__Output } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryRequest";
import type { DiscoveryResponse } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryResponse";
import type {
  RateLimitConfig,
  RateLimitConfig__Output,
} from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitConfig";
import { readFileSync, watchFile } from "node:fs";

type Stream = ServerDuplexStream<DiscoveryRequest__Output, DiscoveryResponse>;

const file = "/configs/configs.json";
const node = "envoy-ratelimit";
const typeUrl = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

const config = messageOf<RateLimitConfig, RateLimitConfig__Output>(
  loadProtos("ratelimit/config/ratelimit/v3/rls_conf.proto"),
  "ratelimit.config.ratelimit.v3.RateLimitConfig",
);
const definitions = loadProtos("envoy/service/discovery/v3/discovery.proto");
// The generated types say what the loader makes of exactly this file.
const { envoy } = loadPackageDefinition(definitions) as unknown as ProtoGrpcType;

/** Streams of the node, which has asked on them. */
const streams = new Set<Stream>();
let version = 1;

function send(stream: Stream): void {
  // Written by an operator for this program.
  const configs = JSON.parse(readFileSync(file, "utf8")) as readonly RateLimitConfig[];
  const resources = configs.map((each) => ({ type_url: typeUrl, value: config.serialize(each) }));
  stream.write({ versionInfo: `${version}`, nonce: `${version}`, typeUrl, resources });
}

function serve(stream: Stream): void {
  stream.on("data", (request: DiscoveryRequest__Output) => {
    // The first request of a stream says who asks; those after it acknowledge a version or refuse it.
    if (request.responseNonce !== "") {
      const refused = request.errorDetail?.message;
      console.log(refused === undefined ? `version ${request.versionInfo} accepted` : `refused: ${refused}`);
    } else if (request.node?.id === node && request.typeUrl === typeUrl) {
      streams.add(stream);
      send(stream);
    } else console.log(`nothing for node ${request.node?.id} and type ${request.typeUrl}`);
  });
  const forget = (): void => void streams.delete(stream);
  stream.on("error", forget);
  stream.on("close", forget);
  stream.on("end", () => stream.end());
}

watchFile(file, { interval: 500 }, () => {
  version += 1;
  streams.forEach(send);
});

const read = (name: string): Buffer => readFileSync(`/certs/${name}`);
const pair = { private_key: read("tls.key"), cert_chain: read("tls.crt") };
const server = new Server();
server.addService(envoy.service.discovery.v3.AggregatedDiscoveryService.service, { streamAggregatedResources: serve });
server.bindAsync("0.0.0.0:18001", ServerCredentials.createSsl(read("ca.crt"), [pair], true), (error) => {
  if (error !== null) throw error;
  console.log("serves xDS on port 18001");
});
process.once("SIGTERM", () => server.forceShutdown());
