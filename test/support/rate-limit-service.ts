/**
 * Rate limit services with scripted responses: one on grpc-js, which implements the protocol as other programs do, and
 * one on bare HTTP/2 streams, for responses that grpc-js would never send.
 */
import {
  loadPackageDefinition,
  type Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type sendUnaryData,
  type status,
  type ServiceDefinition,
} from "@grpc/grpc-js";
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { loadProtos } from "@gatewayproxy/protos/load";
import { serviceInfoMethod } from "@gatewayproxy/protos/service-info";
import type { RateLimitRequest__Output } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitRequest";
import type { RateLimitResponse } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitResponse";
import { onTestFinished } from "vitest";

/** A call as the service received it. */
export interface ReceivedCall {
  /** `ShouldRateLimit`, or a method of Limitador's service. */
  readonly method: string;
  readonly request: RateLimitRequest__Output;
  readonly metadata: Metadata;
}

export interface ScriptedService {
  readonly port: number;
  /** Every call, in the order of arrival. */
  readonly calls: readonly ReceivedCall[];
  /** Resolves when this number of calls in total was received. */
  received(count: number): Promise<void>;
  /** Closes the service and its connections at once. */
  kill(): void;
}

/** A response, a gRPC status, or none at all. */
export type ScriptedResponse = RateLimitResponse | { readonly code: status; readonly details: string } | undefined;

export type Script = (call: ReceivedCall, number: number) => ScriptedResponse | Promise<ScriptedResponse>;

const definitions = loadProtos("envoy/service/ratelimit/v3/rls.proto");
const healthDefinitions = loadProtos("grpc/health/v1/health.proto");
const reflectionDefinitions = loadProtos("grpc/reflection/v1/reflection.proto");

/**
 * Serves on 127.0.0.1 until the test ends. Its health is bad after a gRPC status, good after a response.
 *
 * @param port 0 for a free one.
 * @param listed The names of services in server reflection; without any, there is no reflection.
 */
export async function startScriptedService(
  script: Script,
  port = 0,
  listed: readonly string[] = [],
): Promise<ScriptedService> {
  const calls: ReceivedCall[] = [];
  let isServing = true;
  const waiting = new Set<() => void>();
  const respond =
    (method: string) =>
    (call: { request: RateLimitRequest__Output; metadata: Metadata }, done: sendUnaryData<object>) => {
      const received = { method, request: call.request, metadata: call.metadata };
      calls.push(received);
      for (const check of waiting) check();
      void Promise.resolve(script(received, calls.length)).then((response) => {
        if (response === undefined) return;
        isServing = !("code" in response);
        if ("code" in response) done({ code: response.code, details: response.details });
        else done(null, response);
      });
    };
  const server = new Server();
  const { envoy } = loadPackageDefinition(definitions) as never as { envoy: EnvoyPackage };
  const { service } = envoy.service.ratelimit.v3.RateLimitService;
  server.addService(service, { ShouldRateLimit: respond("ShouldRateLimit") });
  server.addService(kuadrantOf(service), {
    CheckRateLimit: respond("CheckRateLimit"),
    Report: respond("Report"),
  });
  const { grpc } = loadPackageDefinition(healthDefinitions) as never as { grpc: GrpcPackage };
  server.addService(grpc.health.v1.Health.service, {
    Check: (_call: unknown, done: sendUnaryData<object>) =>
      done(null, { status: isServing ? "SERVING" : "NOT_SERVING" }),
  });
  if (listed.length > 0) addReflection(server, listed);
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, free) => {
      if (error === null) resolve(free);
      else reject(error);
    });
  });
  onTestFinished(() => server.forceShutdown());
  return {
    port: bound,
    calls,
    kill: () => server.forceShutdown(),
    received: (count) =>
      new Promise((resolve) => {
        const check = (): void => {
          if (calls.length < count) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
  };
}

function addReflection(server: Server, listed: readonly string[]): void {
  const { grpc } = loadPackageDefinition(reflectionDefinitions) as never as { grpc: ReflectionPackage };
  const listServicesResponse = { service: listed.map((name) => ({ name })) };
  server.addService(grpc.reflection.v1.ServerReflection.service, {
    ServerReflectionInfo: (stream: ServerDuplexStream<object, object>) => {
      stream.on("data", () => stream.write({ listServicesResponse }));
      stream.on("end", () => stream.end());
    },
  });
}

interface EnvoyPackage {
  readonly service: {
    readonly ratelimit: { readonly v3: { readonly RateLimitService: { readonly service: ServiceDefinition } } };
  };
}

interface GrpcPackage {
  readonly health: { readonly v1: { readonly Health: { readonly service: ServiceDefinition } } };
}

interface ReflectionPackage {
  readonly reflection: { readonly v1: { readonly ServerReflection: { readonly service: ServiceDefinition } } };
}

/** Limitador's service has the same messages under other names. */
function kuadrantOf(service: ServiceDefinition): ServiceDefinition {
  const { ShouldRateLimit: method } = service;
  if (method === undefined) throw new Error("the protos have no ShouldRateLimit");
  const at = (name: string) => ({ ...method, path: `/kuadrant.service.ratelimit.v1.RateLimitService/${name}` });
  return { CheckRateLimit: at("CheckRateLimit"), Report: at("Report") };
}

export interface RawService {
  readonly port: number;
  /** The number of calls received, without those that identify the service. */
  readonly calls: number;
  readonly sessions: readonly ServerHttp2Session[];
}

/**
 * Passes the stream of every call to `respond` when its message is complete. Calls that identify the service get no
 * response, since the proxy makes them when its state is read.
 */
export async function startRawService(
  respond: (stream: ServerHttp2Stream, number: number) => void,
  port = 0,
): Promise<RawService> {
  const server = createServer();
  const sessions: ServerHttp2Session[] = [];
  let calls = 0;
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => undefined);
  });
  server.on("stream", (stream: ServerHttp2Stream, fields) => {
    const isIdentification = fields[":path"] === serviceInfoMethod;
    stream.on("error", () => undefined);
    stream.resume();
    stream.on("end", () => {
      if (!isIdentification) respond(stream, ++calls);
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return {
    // A listening TCP server has such an address.
    port: (server.address() as AddressInfo).port,
    sessions,
    get calls() {
      return calls;
    },
  };
}

/** Responds to one gRPC call with `message` as its only message. */
export function respondGrpc(stream: ServerHttp2Stream, message: Buffer, status = "0"): void {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": status }));
  stream.end(Buffer.concat([prefix, message]));
}

/** The shortest response: overall code OK. */
export const okMessage = Buffer.from([8, 1]);
