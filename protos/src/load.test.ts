import { describe, expect, test } from "vitest";
import { loadProtos, messageOf } from "./load.ts";
import { protoFiles } from "./options.ts";
import type { DiscoveryRequest, DiscoveryRequest__Output } from "../gen/envoy/service/discovery/v3/DiscoveryRequest.ts";
import type { RateLimitRequest, RateLimitRequest__Output } from "../gen/envoy/service/ratelimit/v3/RateLimitRequest.ts";
import type {
  RateLimitResponse,
  RateLimitResponse__Output,
} from "../gen/envoy/service/ratelimit/v3/RateLimitResponse.ts";

const definitions = loadProtos(...protoFiles);

/** Encodes a length-delimited field: tag, length, content. */
function field(number: number, content: Uint8Array | string): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
}

/** Encodes a varint field; the value is below 128. */
function varint(number: number, value: number): Buffer {
  return Buffer.from([number << 3, value]);
}

const nested = (...parts: readonly Uint8Array[]): Buffer => Buffer.concat(parts);

describe("the wire messages", () => {
  test("come with every service", () => {
    expect(Object.keys(definitions)).toEqual(
      expect.arrayContaining([
        "envoy.service.ratelimit.v3.RateLimitService",
        "envoy.service.discovery.v3.AggregatedDiscoveryService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
      ]),
    );
  });

  test("number the fields of a request as Envoy does", () => {
    const message = messageOf<RateLimitRequest, RateLimitRequest__Output>(
      definitions,
      "envoy.service.ratelimit.v3.RateLimitRequest",
    );
    const descriptor = nested(
      field(1, nested(field(1, "path"), field(2, "/v1"))),
      field(2, nested(varint(1, 9), varint(2, 3), field(3, varint(1, 5)))),
      field(3, varint(1, 4)),
      varint(4, 1),
    );

    expect(message.deserialize(nested(field(1, "rl"), field(2, descriptor), varint(3, 7)))).toEqual({
      domain: "rl",
      hitsAddend: 7,
      descriptors: [
        {
          entries: [{ key: "path", value: "/v1" }],
          limit: { requestsPerUnit: 9, unit: "HOUR", unitMultiplier: { value: 5 } },
          hitsAddend: { value: "4" },
          isNegativeHits: true,
        },
      ],
    });
  });

  test("number the fields of a response as Envoy does", () => {
    const message = messageOf<RateLimitResponse, RateLimitResponse__Output>(
      definitions,
      "envoy.service.ratelimit.v3.RateLimitResponse",
    );
    const limit = nested(varint(1, 10), varint(2, 7), field(3, "per-ip"), field(4, varint(1, 2)));
    const status = nested(varint(1, 2), field(2, limit), varint(3, 6), field(4, nested(varint(1, 58), varint(2, 1))));
    const header = nested(field(1, "x-a"), field(2, "1"));

    const response = message.deserialize(
      nested(varint(1, 2), field(2, status), field(3, header), field(4, header), field(5, "full")),
    );

    expect(response).toMatchObject({
      overallCode: "OVER_LIMIT",
      statuses: [
        {
          code: "OVER_LIMIT",
          currentLimit: { requestsPerUnit: 10, unit: "WEEK", name: "per-ip", unitMultiplier: { value: 2 } },
          limitRemaining: 6,
          durationUntilReset: { seconds: "58", nanos: 1 },
        },
      ],
      responseHeadersToAdd: [{ key: "x-a", value: "1" }],
      requestHeadersToAdd: [{ key: "x-a", value: "1" }],
      rawBody: Buffer.from("full"),
    });
  });

  test("number the fields of a discovery request as Envoy does", () => {
    const message = messageOf<DiscoveryRequest, DiscoveryRequest__Output>(
      definitions,
      "envoy.service.discovery.v3.DiscoveryRequest",
    );

    const request = message.deserialize(
      nested(
        field(1, "v1"),
        field(2, nested(field(1, "node"), field(2, "cluster"))),
        field(3, "name"),
        field(4, "type"),
        field(5, "nonce"),
        field(6, nested(varint(1, 3), field(2, "bad"))),
      ),
    );

    expect(request).toMatchObject({
      versionInfo: "v1",
      node: { id: "node", cluster: "cluster" },
      resourceNames: ["name"],
      typeUrl: "type",
      responseNonce: "nonce",
      errorDetail: { code: 3, message: "bad" },
    });
  });

  test("are unknown by a name that no file defines", () => {
    expect(() => messageOf(definitions, "envoy.Nothing")).toThrow("no message envoy.Nothing");
  });
});
