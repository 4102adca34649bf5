/**
 * Identifies the program of a rate limit service by calls that count nothing. The bundled service has the method
 * ServiceInfo. envoyproxy/ratelimit reports its health for the name `ratelimit`, and for no other. Limitador lists a
 * service of its own in server reflection.
 */
import { serviceInfoMethod, serviceInfoName } from "@gatewayproxy/protos/service-info";
import { WireError, WireReader, WireType } from "@gatewayproxy/protos/wire-reader";
import type { CallOutcome } from "@gatewayproxy/grpc/client/unary-client";
import type { UnaryClient } from "./grpc/unary-client.ts";

/** The program and version of a rate limit service. */
export interface ServiceIdentity {
  /** `Unknown` if no program was recognised. */
  readonly program: "GatewayProxy" | "EnvoyRatelimit" | "Limitador" | "Unknown";
  /** Absent if the program does not report it. */
  readonly version?: string;
}

const healthPath = "/grpc.health.v1.Health/Check";
const reflectionPath = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/** ServerReflectionRequest: field 7, list_services, is an empty text. */
const listServices = Buffer.from([0x3a, 0]);
const serviceOfLimitador = "kuadrant.service.ratelimit.v1.RateLimitService";
const timeoutMs = 2_000;
const maxVersionLength = 100;

/** Identifies a service with up to four calls. Resolves with `undefined` if a call gets no response; never rejects. */
export async function identifyService(client: UnaryClient): Promise<ServiceIdentity | undefined> {
  const call = (path: string, message: Buffer): Promise<CallOutcome> =>
    new Promise((resolve) => client.call(path, message, timeoutMs, resolve));

  const info = await call(serviceInfoMethod, Buffer.alloc(0));
  if (!hasResponse(info)) return undefined;
  const bundled = info.kind === "responded" ? readInfo(info.message) : undefined;
  if (bundled !== undefined) return bundled;

  const named = await call(healthPath, healthOf("ratelimit"));
  const unnamed = await call(healthPath, healthOf("gateway-proxy-asks-for-no-service"));
  if (!hasResponse(named) || !hasResponse(unnamed)) return undefined;
  if (named.kind === "responded" && unnamed.kind === "failed") return { program: "EnvoyRatelimit" };

  const services = await call(reflectionPath, listServices);
  if (!hasResponse(services)) return undefined;
  const isLimitador = services.kind === "responded" && services.message.includes(serviceOfLimitador);
  return { program: isLimitador ? "Limitador" : "Unknown" };
}

/** Whether the service responded to the call, with a message or an error. */
function hasResponse(outcome: CallOutcome): boolean {
  return outcome.kind === "responded" || outcome.cause === "rejected" || outcome.cause === "unknown";
}

/** Encodes a HealthCheckRequest: field 1, the name of a service, shorter than 128 bytes. */
function healthOf(service: string): Buffer {
  return Buffer.concat([Buffer.from([0x0a, service.length]), Buffer.from(service)]);
}

/** Decodes a ServiceInfo. Returns `undefined` for a message of another program. */
function readInfo(message: Buffer): ServiceIdentity | undefined {
  const texts = new Map<number, string>();
  try {
    const reader = new WireReader(message);
    while (reader.position < message.length) {
      const tag = reader.readTag(message.length);
      if ((tag & 7) === WireType.Bytes) texts.set(tag >>> 3, reader.readString(message.length));
      else reader.skip(tag, message.length);
    }
  } catch (error) {
    if (error instanceof WireError) return undefined;
    throw error;
  }
  if (texts.get(1) !== serviceInfoName) return undefined;
  return { program: "GatewayProxy", version: (texts.get(2) ?? "").slice(0, maxVersionLength) };
}
