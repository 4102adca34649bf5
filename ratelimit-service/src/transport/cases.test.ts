/** The acceptance cases, asked over the wire: what a door loses or adds on the way shows here. */
import type { RateLimitResponse__Output } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitResponse";
import type { Struct__Output } from "@gatewayproxy/protos/gen/google/protobuf/Struct";
import type { Value__Output } from "@gatewayproxy/protos/gen/google/protobuf/Value";
import { credentials } from "@grpc/grpc-js";
import { systemClock } from "@gatewayproxy/runtime/clock";
import type {
  CurrentLimit,
  DescriptorStatus,
  JsonObject,
  JsonValue,
  RateLimitRequest,
  RateLimitResponse,
} from "../model/rate-limit.ts";
import { createStoreMemory, MemoryTables } from "../store/memory-tables.ts";
import { MemoryStore } from "../store/memory-store.ts";
import type { CaseSettings } from "../testing/acceptance/case.ts";
import { createCore } from "../testing/acceptance/core.ts";
import { describeCases } from "../testing/acceptance/run-cases.ts";
import { GrpcServer } from "@gatewayproxy/grpc/server/grpc-server";
import { rateLimitMethod } from "./grpc/rate-limit-method.ts";
import { RateLimitClient } from "./grpc/testing/grpc-clients.ts";
import { HttpServer } from "./http/http-server.ts";
import { serviceRoutes } from "./http/service-routes.ts";
import { ServingStatus } from "./serving-status.ts";

function memoryCore(settings: CaseSettings) {
  return createCore((time) => new MemoryStore(new MemoryTables(createStoreMemory(4_096), 1), time), settings);
}

/** Neither client nor server is to fail in these cases. */
function onError(error: unknown): never {
  throw error;
}

describeCases("the gRPC door", async (settings) => {
  const { service, clock } = memoryCore(settings);
  const server = new GrpcServer({
    methods: new Map([rateLimitMethod(service)]),
    clock: systemClock,
    random: () => 0,
    onError,
    onClientError: onError,
  });
  const port = Number(await server.listen({ kind: "tcp", host: "127.0.0.1", port: 0 }));
  const client = new RateLimitClient(`127.0.0.1:${port}`, credentials.createInsecure());
  return {
    ask: (request) =>
      new Promise((resolve, reject) => {
        client.shouldRateLimit(wireRequest(request), (error, response) => {
          if (response === undefined) reject(error ?? new Error("no response"));
          else resolve(fromWire(response));
        });
      }),
    advance: (seconds) => clock.advance(seconds * 1_000),
    close: async () => {
      client.close();
      await server.close(0);
    },
  };
});

describeCases("the JSON door", async (settings) => {
  const { service, clock } = memoryCore(settings);
  const routes = new Map(serviceRoutes(service, new ServingStatus(true)));
  const server = new HttpServer({ routes, clock: systemClock, onError });
  const port = await server.listen("127.0.0.1", 0);
  return {
    ask: async (request) => {
      const response = await fetch(`http://127.0.0.1:${port}/json`, { method: "POST", body: JSON.stringify(request) });
      return fromJson((await response.json()) as JsonResponse);
    },
    advance: (seconds) => clock.advance(seconds * 1_000),
    close: () => server.close(0),
  };
});

function wireRequest({ domain, descriptors, hitsAddend }: RateLimitRequest) {
  return {
    domain,
    hitsAddend,
    descriptors: descriptors.map(({ entries, limit, hitsAddend: hits, isNegativeHits }) => ({
      entries: [...entries],
      ...(limit === undefined ? {} : { limit: { requestsPerUnit: limit.requestsPerUnit, unit: limit.unit as "DAY" } }),
      ...(hits === undefined ? {} : { hitsAddend: { value: hits } }),
      ...(isNegativeHits === undefined ? {} : { isNegativeHits }),
    })),
  };
}

function fromWire(response: RateLimitResponse__Output): RateLimitResponse {
  return {
    overallCode: response.overallCode,
    statuses: response.statuses.map(({ code, currentLimit: limit, limitRemaining, durationUntilReset: reset }) => ({
      code,
      limitRemaining,
      ...(limit === null ? {} : { currentLimit: currentLimit(limit.requestsPerUnit, limit.unit, limit.name) }),
      ...(reset === null ? {} : { durationUntilResetSeconds: Number(reset.seconds) }),
    })),
    responseHeaders: response.responseHeadersToAdd.map(({ key, value }) => ({ key, value })),
    ...(response.dynamicMetadata === null ? {} : { dynamicMetadata: structOf(response.dynamicMetadata) }),
  };
}

function currentLimit(requestsPerUnit: number, unit: string, name: string): CurrentLimit {
  // The wire has UNKNOWN too, which would be a failure of the case.
  const limit = { requestsPerUnit, unit: unit as CurrentLimit["unit"] };
  return name === "" ? limit : { ...limit, name };
}

function structOf(struct: Struct__Output): JsonObject {
  const entries = Object.entries(struct.fields);
  return Object.fromEntries(entries.map(([key, value]) => [key, valueOf(value)]));
}

function valueOf(value: Value__Output): JsonValue {
  switch (value.kind) {
    case "structValue":
      return structOf(value.structValue ?? { fields: {} });
    case "listValue":
      return (value.listValue?.values ?? []).map(valueOf);
    case "numberValue":
      return value.numberValue ?? 0;
    case "stringValue":
      return value.stringValue ?? "";
    case "boolValue":
      return value.boolValue ?? false;
    case "nullValue":
    case undefined:
      break;
  }
  return null;
}

/** proto3 JSON, where what is at its default is left out. */
interface JsonResponse extends Pick<RateLimitResponse, "dynamicMetadata"> {
  readonly overallCode?: RateLimitResponse["overallCode"];
  readonly statuses?: readonly {
    readonly code?: DescriptorStatus["code"];
    readonly currentLimit?: Partial<CurrentLimit>;
    readonly limitRemaining?: number;
    readonly durationUntilReset?: string;
  }[];
  readonly responseHeadersToAdd?: RateLimitResponse["responseHeaders"];
}

function fromJson({ overallCode = "UNKNOWN", statuses = [], responseHeadersToAdd = [], ...rest }: JsonResponse) {
  return {
    ...rest,
    overallCode,
    responseHeaders: responseHeadersToAdd,
    statuses: statuses.map(
      ({ code = "UNKNOWN", currentLimit: limit, limitRemaining = 0, durationUntilReset: reset }) => ({
        code,
        limitRemaining,
        ...(limit === undefined
          ? {}
          : { currentLimit: currentLimit(limit.requestsPerUnit ?? 0, limit.unit ?? "", limit.name ?? "") }),
        ...(reset === undefined ? {} : { durationUntilResetSeconds: Number(reset.replace("s", "")) }),
      }),
    ),
  };
}
