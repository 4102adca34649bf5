/** grpc-js as a client of rate limit services in tests, with promises. */
import type { RateLimitRequest } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitRequest";
import type { RateLimitResponse__Output } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitResponse";
import { HealthClient, RateLimitClient } from "../../ratelimit-service/src/transport/grpc/testing/grpc-clients.ts";
import { credentials, type ServiceError } from "@grpc/grpc-js";

export interface RateLimitTestClient {
  /** Rejects with the `ServiceError` of grpc-js. */
  send(request: RateLimitRequest): Promise<RateLimitResponse__Output>;
  /** The response, or the status code and its text. */
  outcome(
    request: RateLimitRequest,
  ): Promise<RateLimitResponse__Output | { readonly code: number; readonly details: string }>;
  /** `SERVING` and so on, or the error's text. */
  health(service: string): Promise<string>;
  close(): void;
}

/** Connects to 127.0.0.1; every client has its own connection. */
export function connectRateLimit(port: number): RateLimitTestClient {
  const options = { "grpc.use_local_subchannel_pool": 1 };
  const target = `127.0.0.1:${port}`;
  const client = new RateLimitClient(target, credentials.createInsecure(), options);
  const health = new HealthClient(target, credentials.createInsecure(), options);
  const send = (request: RateLimitRequest) =>
    new Promise<RateLimitResponse__Output>((resolve, reject) => {
      client.shouldRateLimit(request, (error, response) => {
        if (response === undefined) reject(error ?? new Error("no response"));
        else resolve(response);
      });
    });
  return {
    send,
    outcome: (request) =>
      send(request).catch((error: unknown) => {
        // grpc-js rejects with no other error.
        const { code, details } = error as ServiceError;
        return { code, details };
      }),
    health: (service) =>
      new Promise((resolve) => {
        health.check({ service }, (error, response) => resolve(response?.status ?? error?.details ?? ""));
      }),
    close: () => {
      client.close();
      health.close();
    },
  };
}

/** A descriptor of `key=value` pairs. */
export function descriptor(...entries: readonly string[]) {
  return {
    entries: entries.map((entry) => {
      const equals = entry.indexOf("=");
      return { key: entry.slice(0, equals), value: entry.slice(equals + 1) };
    }),
  };
}
