/** One aggregated stream to an xDS server, on grpc-js, from the attempt to connect to its end. */
import { readFileSync } from "node:fs";
import type { DiscoveryRequest } from "@gatewayproxy/protos/gen/envoy/service/discovery/v3/DiscoveryRequest";
import type { ProtoGrpcType } from "@gatewayproxy/protos/gen/discovery";
import { type ServerIdentity, serverIdentityOf } from "@gatewayproxy/runtime/server-identity";
import { trustSystemAuthorities } from "@gatewayproxy/runtime/system-authorities";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { loadProtos } from "@gatewayproxy/protos/load";
import {
  type ChannelCredentials,
  type ClientDuplexStream,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { type DiscoveryResponse, readDiscoveryResponse } from "./xds-resource.ts";

/** The address of an xDS server, and how to connect to it. */
export interface XdsServer {
  /** `host:port`. */
  readonly address: string;
  /** Without it, plain text. */
  readonly tls?: XdsTls;
  /** Metadata of the stream. */
  readonly headers: ReadonlyMap<string, string>;
  /** Maximum size of a response; the default is 4 MiB. */
  readonly maxMessageBytes?: number;
}

/** Paths of PEM files. They are read for every connection, so that renewed ones are used. */
export interface XdsTls {
  readonly certificateFile?: string;
  readonly keyFile?: string;
  /** Certificate authorities in place of the system's. */
  readonly authoritiesFile?: string;
  /** Host name to verify in the server's certificate, instead of the host of `address`. */
  readonly serverName?: string;
}

/** Events of a stream. They are called in this order, never within `openAdsConnection` and never after `close`. */
export interface AdsEvents {
  /** `send` may be called from now on; messages wait until the server is reached. */
  readonly onOpen: () => void;
  readonly onResponse: (response: DiscoveryResponse) => void;
  /** Called once, when the connection is closed. `wasReached` is false when no connection could be made. */
  readonly onEnd: (reason: string, wasReached: boolean) => void;
}

/** One stream. `send` has no effect before the stream opens and after its end. `close` ends it without `onEnd`. */
export interface AdsConnection {
  readonly send: (request: DiscoveryRequest) => void;
  readonly close: () => void;
}

type AdsStream = ClientDuplexStream<DiscoveryRequest, DiscoveryResponse>;

/** Starts to connect. Certificates that cannot be read end the connection with that reason. */
export function openAdsConnection(server: XdsServer, events: AdsEvents): AdsConnection {
  let hasEnded = false;
  let stream: AdsStream | undefined;
  let closeClient = (): void => undefined;

  function end(reason: string, wasReached: boolean): void {
    if (hasEnded) return;
    close();
    events.onEnd(reason, wasReached);
  }

  function close(): void {
    hasEnded = true;
    stream?.cancel();
    closeClient();
  }

  function connect(): void {
    if (hasEnded) return;
    try {
      const { client, service } = newClient(server);
      closeClient = () => client.close();
      const { path, requestSerialize } = service.StreamAggregatedResources;
      // The response is parsed by hand, because it may be large.
      stream = client.makeBidiStreamRequest(path, requestSerialize, readDiscoveryResponse, streamMetadata(server));
    } catch (error) {
      end(errorMessage(error), false);
      return;
    }
    stream.on("data", (response: DiscoveryResponse) => {
      if (!hasEnded) events.onResponse(response);
    });
    stream.on("error", ({ code, details, message }: ServiceError) => {
      const reason = details === "" ? message : details;
      end(code === status.RESOURCE_EXHAUSTED ? `${reason}; ${sizeHint}` : reason, code !== status.UNAVAILABLE);
    });
    stream.on("end", () => end("the stream ended", true));
    events.onOpen();
  }

  process.nextTick(connect);
  return {
    send: (request) => {
      if (!hasEnded) stream?.write(request);
    },
    close,
  };
}

const sizeHint = "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES is the largest message that is accepted";

function newClient(server: XdsServer) {
  // The loader builds the types that are generated from exactly this file.
  const { envoy } = loadPackageDefinition(
    loadProtos("envoy/service/discovery/v3/discovery.proto"),
  ) as unknown as ProtoGrpcType;
  const { address, maxMessageBytes, tls } = server;
  const { AggregatedDiscoveryService } = envoy.service.discovery.v3;
  const identity = serverIdentityOf(address, tls?.serverName);
  const { handshakeName } = identity;
  const client = new AggregatedDiscoveryService(address, channelCredentials(tls, identity), {
    "grpc.keepalive_time_ms": 30_000,
    "grpc.use_local_subchannel_pool": 1,
    ...(maxMessageBytes === undefined ? {} : { "grpc.max_receive_message_length": maxMessageBytes }),
    ...(handshakeName === undefined ? {} : { "grpc.ssl_target_name_override": handshakeName }),
  });
  return { client, service: AggregatedDiscoveryService.service };
}

function channelCredentials(tls: XdsTls | undefined, { check }: ServerIdentity): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  if (tls.authoritiesFile === undefined) trustSystemAuthorities();
  const read = (file: string | undefined) => (file === undefined ? null : readFileSync(file));
  return credentials.createSsl(read(tls.authoritiesFile), read(tls.keyFile), read(tls.certificateFile), {
    checkServerIdentity: (_, certificate) => check(certificate),
  });
}

function streamMetadata({ headers }: XdsServer): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of headers) metadata.set(name, value);
  return metadata;
}
