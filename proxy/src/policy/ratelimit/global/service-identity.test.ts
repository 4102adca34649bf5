import { serviceInfoMethod } from "@gatewayproxy/protos/service-info";
import { expect, test } from "vitest";
import { type CallOutcome, callFailure } from "@gatewayproxy/grpc/client/unary-client";
import type { UnaryClient } from "./grpc/unary-client.ts";
import { identifyService } from "./service-identity.ts";

const unimplemented = callFailure("rejected", "UNIMPLEMENTED");
const responded = (message: Buffer | string): CallOutcome => ({ kind: "responded", message: Buffer.from(message) });
const serving = responded(Buffer.from([8, 1]));
const info = responded(Buffer.from("\n\x0dgateway-proxy\x12\x051.2.3"));

/** A client that responds to a call by its path, or by its path and the service in its message. Other calls fail. */
function clientOf(outcomes: Readonly<Record<string, CallOutcome>>) {
  const asked: string[] = [];
  const client: UnaryClient = {
    call(path, message, _, done) {
      asked.push(path);
      const name = message.subarray(2).toString();
      done(outcomes[`${path} ${name}`] ?? outcomes[path] ?? unimplemented);
    },
    update: () => undefined,
    close: () => undefined,
  };
  return { client, asked };
}

const health = "/grpc.health.v1.Health/Check";
const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

test.each<[string, Readonly<Record<string, CallOutcome>>, unknown]>([
  ["our service", { [serviceInfoMethod]: info }, { program: "GatewayProxy", version: "1.2.3" }],
  ["envoyproxy/ratelimit", { [`${health} ratelimit`]: serving }, { program: "EnvoyRatelimit" }],
  ["one that has a health for every name", { [health]: serving }, { program: "Unknown" }],
  [
    "Limitador",
    { [reflection]: responded("…kuadrant.service.ratelimit.v1.RateLimitService") },
    { program: "Limitador" },
  ],
  ["another with reflection", { [reflection]: responded("some.Service") }, { program: "Unknown" }],
  ["one that knows no other method", {}, { program: "Unknown" }],
  ["one that responds with empty messages", { [serviceInfoMethod]: responded("") }, { program: "Unknown" }],
  ["one that responds with garbage", { [serviceInfoMethod]: responded("\xff\xff\xff") }, { program: "Unknown" }],
  ["one that is unavailable", { [serviceInfoMethod]: callFailure("unavailable", "no connection") }, undefined],
  ["one that becomes unavailable", { [reflection]: callFailure("timeout", "no response") }, undefined],
])("identifies %s by calls that count nothing", async (_, outcomes, identity) => {
  const { client, asked } = clientOf(outcomes);

  expect(await identifyService(client)).toEqual(identity);
  expect(asked.filter((path) => /ShouldRateLimit|Report|CheckRateLimit/.test(path))).toEqual([]);
});
