import { loadProtos, messageOf } from "@gatewayproxy/protos/load";
import type {
  RateLimitRequest as WireRequest,
  RateLimitRequest__Output as WireRequestOutput,
} from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitRequest";
import type {
  RateLimitResponse as WireResponse,
  RateLimitResponse__Output as WireResponseOutput,
} from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitResponse";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonObject, JsonValue, RateLimitRequest, RateLimitResponse } from "../../model/rate-limit.ts";
import { decodeRateLimitRequest, encodeRateLimitResponse } from "./rate-limit-codec.ts";
import { CallTooLargeError } from "../../limiter/call-bounds.ts";
import { WireError } from "@gatewayproxy/protos/wire-reader";

const definitions = loadProtos("envoy/service/ratelimit/v3/rls.proto");
const requestMessage = messageOf<WireRequest, WireRequestOutput>(
  definitions,
  "envoy.service.ratelimit.v3.RateLimitRequest",
);
const responseMessage = messageOf<WireResponse, WireResponseOutput>(
  definitions,
  "envoy.service.ratelimit.v3.RateLimitResponse",
);

const text = fc.oneof(fc.string({ maxLength: 8 }), fc.string({ unit: "binary", maxLength: 60 }));
const uint32 = fc.oneof(fc.constantFrom(0, 1, 127, 128, 2 ** 31, 2 ** 32 - 1), fc.nat(2 ** 31 - 1));
const uint64 = fc.oneof(uint32, fc.maxSafeNat());
const overrideUnit = fc.constantFrom("UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "9", "-1");

const request: fc.Arbitrary<RateLimitRequest> = fc.record({
  domain: text,
  hitsAddend: uint32,
  descriptors: fc.array(
    fc.record(
      {
        entries: fc.array(fc.record({ key: text, value: text }), { maxLength: 4 }),
        limit: fc.record(
          { requestsPerUnit: uint32, unit: overrideUnit, unitMultiplier: uint32 },
          { requiredKeys: ["requestsPerUnit", "unit"] },
        ),
        hitsAddend: uint64,
        isNegativeHits: fc.constant(true),
      },
      { requiredKeys: ["entries"] },
    ),
    { maxLength: 4 },
  ),
});

/** As the loader wants it. */
function wireRequest(asked: RateLimitRequest): WireRequest {
  return {
    domain: asked.domain,
    hitsAddend: asked.hitsAddend,
    descriptors: asked.descriptors.map(({ entries, limit, hitsAddend, isNegativeHits }) => ({
      entries: entries.map((entry) => ({ ...entry })),
      ...(limit === undefined ? {} : { limit: wireOverride(limit) }),
      ...(hitsAddend === undefined ? {} : { hitsAddend: { value: hitsAddend } }),
      ...(isNegativeHits === undefined ? {} : { isNegativeHits }),
    })),
  };
}

function wireOverride(limit: NonNullable<RateLimitRequest["descriptors"][number]["limit"]>) {
  const isNumber = /^-?\d+$/.test(limit.unit);
  return {
    requestsPerUnit: limit.requestsPerUnit,
    // The generated type knows names only; the loader takes numbers that the enum does not have.
    unit: (isNumber ? Number(limit.unit) : limit.unit) as "SECOND",
    ...(limit.unitMultiplier === undefined ? {} : { unitMultiplier: { value: limit.unitMultiplier } }),
  };
}

const json = fc
  .object({
    maxDepth: 3,
    key: fc.string({ unit: fc.constantFrom("a", "b", "ü") }),
    values: [fc.string(), fc.boolean(), fc.constant(null), fc.double({ noNaN: true })],
  })
  .map((value) => value as JsonObject);

const response: fc.Arbitrary<RateLimitResponse> = fc.record(
  {
    overallCode: fc.constantFrom("UNKNOWN", "OK", "OVER_LIMIT"),
    statuses: fc.array(
      fc.record(
        {
          code: fc.constantFrom("UNKNOWN", "OK", "OVER_LIMIT"),
          currentLimit: fc.record(
            {
              requestsPerUnit: uint32,
              unit: fc.constantFrom("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"),
              name: text,
              unitMultiplier: uint32,
            },
            { requiredKeys: ["requestsPerUnit", "unit"] },
          ),
          limitRemaining: uint32,
          durationUntilResetSeconds: uint32,
        },
        { requiredKeys: ["code", "limitRemaining"] },
      ),
      { maxLength: 5 },
    ),
    responseHeaders: fc.array(fc.record({ key: text, value: text }), { maxLength: 3 }),
    rawBody: fc.uint8Array({ maxLength: 300 }),
    dynamicMetadata: json,
  },
  { requiredKeys: ["overallCode", "statuses", "responseHeaders"] },
);

describe("decodeRateLimitRequest", () => {
  test("reads what protobufjs writes", () => {
    fc.assert(
      fc.property(request, (asked) => {
        expect(decodeRateLimitRequest(requestMessage.serialize(wireRequest(asked)))).toEqual(asked);
      }),
    );
  });

  test("passes over fields that it does not know, of every wire type", () => {
    const unknown = Buffer.from("a00601" + "a1060102030405060708" + "a20603616263" + "a50601020304", "hex");
    const known = requestMessage.serialize({ domain: "rl" });

    expect(decodeRateLimitRequest(Buffer.concat([unknown, known, unknown])).domain).toBe("rl");
  });

  test("takes the last of a repeated scalar and merges a repeated message", () => {
    const first = Buffer.from("0a0161" + "1802", "hex");
    const second = Buffer.from("0a0162", "hex");
    const descriptor = Buffer.from("1208" + "12020805" + "12021002", "hex");

    expect(decodeRateLimitRequest(Buffer.concat([first, second, descriptor]))).toEqual({
      domain: "b",
      hitsAddend: 2,
      descriptors: [{ entries: [], limit: { requestsPerUnit: 5, unit: "MINUTE" } }],
    });
  });

  test.each([
    ["a length beyond the message", "0a05616263"],
    ["an end within a length", "0a"],
    ["an end within a number", "18ff"],
    ["a number of eleven bytes", "18ffffffffffffffffffff01"],
    ["a number of 65 bits", "18ffffffffffffffffff02"],
    ["field number 0", "0200"],
    ["a group", "0b0c"],
    ["an end within a fixed number", "a106010203"],
    ["a known field with another type", "0801"],
    ["a nested length beyond its parent", "12020a05" + "0000000000"],
    ["text that is not UTF-8", "0a02c328"],
    ["an overlong encoding in text", "0a02c080"],
    ["a lone surrogate in text", "0a03eda080"],
  ])("rejects %s", (_, hex) => {
    expect(() => decodeRateLimitRequest(Buffer.from(hex, "hex"))).toThrow(WireError);
  });

  test.each<[string, object, string]>([
    ["descriptors", { descriptors: Array.from({ length: 4 }, () => ({})) }, "the call has more than 3 descriptors"],
    [
      "entries",
      { descriptors: [{}, { entries: [{ key: "a" }, { key: "b" }, { key: "c" }] }] },
      "descriptor 1 has more than 2 entries",
    ],
    ["a domain", { domain: "123456" }, "the domain has 6 characters, at most 5 are accepted"],
    [
      "a key",
      { descriptors: [{ entries: [{ key: "123456" }] }] },
      "the key of entry 0 of descriptor 0 has 6 characters, at most 5 are accepted",
    ],
    [
      "a value",
      { descriptors: [{}, { entries: [{ key: "a" }, { key: "a", value: "1234567" }] }] },
      "the value of entry 1 of descriptor 1 has 7 characters, at most 5 are accepted",
    ],
  ])("rejects %s beyond the bounds", (_, asked, message) => {
    const bounds = { maxDescriptors: 3, maxEntries: 2, maxTextLength: 5 };
    expect(() => decodeRateLimitRequest(requestMessage.serialize(asked), bounds)).toThrow(
      new CallTooLargeError(message),
    );
  });

  test("takes what is at the bounds", () => {
    const entries = [
      { key: "12345", value: "12345" },
      { key: "ü2345", value: "" },
    ];
    const asked = { domain: "12345", descriptors: Array.from({ length: 3 }, () => ({ entries })) };
    const bounds = { maxDescriptors: 3, maxEntries: 2, maxTextLength: 5 };
    expect(decodeRateLimitRequest(requestMessage.serialize(asked), bounds)).toEqual({ ...asked, hitsAddend: 0 });
  });

  test("makes no more objects than the bounds allow, whatever it is sent", () => {
    const field = fc
      .tuple(fc.constantFrom(0x0a, 0x12, 0x18, 0x22, 0x7a), fc.uint8Array({ maxLength: 12 }))
      .map(([tag, bytes]) => (tag === 0x18 ? Buffer.from([tag, 1]) : Buffer.from([tag, bytes.length, ...bytes])));
    const nested = fc.array(field, { maxLength: 12 }).map((fields) => {
      const content = Buffer.concat(fields).subarray(0, 120);
      return Buffer.concat([Buffer.from([0x12, content.length]), content]);
    });
    const bounds = { maxDescriptors: 3, maxEntries: 2, maxTextLength: 5 };
    fc.assert(
      fc.property(fc.array(fc.oneof(field, nested), { maxLength: 12 }), (parts) => {
        try {
          const { domain, descriptors } = decodeRateLimitRequest(Buffer.concat(parts), bounds);
          const texts = [domain, ...descriptors.flatMap(({ entries }) => entries.flatMap((e) => [e.key, e.value]))];
          expect(descriptors.length).toBeLessThanOrEqual(3);
          expect(Math.max(0, ...descriptors.map(({ entries }) => entries.length))).toBeLessThanOrEqual(2);
          expect(Math.max(...texts.map((text) => text.length))).toBeLessThanOrEqual(5);
        } catch (error) {
          if (!(error instanceof CallTooLargeError)) expect(error).toBeInstanceOf(WireError);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("survives every mutation of a message: a request or a WireError, nothing else", () => {
    const damage = fc.array(fc.record({ at: fc.nat(), byte: fc.nat(255), cut: fc.boolean() }), { maxLength: 4 });
    fc.assert(
      fc.property(request, damage, (asked, damages) => {
        let bytes = requestMessage.serialize(wireRequest(asked));
        for (const { at, byte, cut } of damages) {
          if (bytes.length === 0) break;
          bytes[at % bytes.length] = byte;
          bytes = cut ? bytes.subarray(0, at % bytes.length) : bytes;
        }
        try {
          expect(decodeRateLimitRequest(bytes).descriptors).toBeInstanceOf(Array);
        } catch (error) {
          expect(error).toBeInstanceOf(WireError);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

/** What the loader makes of a response. */
function wireResponse(response: RateLimitResponse): object {
  return {
    overallCode: response.overallCode,
    statuses: response.statuses.map(
      ({ code, currentLimit: limit, limitRemaining, durationUntilResetSeconds: reset }) => ({
        code,
        limitRemaining,
        currentLimit:
          limit === undefined
            ? null
            : {
                requestsPerUnit: limit.requestsPerUnit,
                unit: limit.unit,
                name: limit.name ?? "",
                unitMultiplier: limit.unitMultiplier === undefined ? null : { value: limit.unitMultiplier },
              },
        durationUntilReset: reset === undefined ? null : { seconds: String(reset), nanos: 0 },
        quota: null,
      }),
    ),
    responseHeadersToAdd: response.responseHeaders.map((header) => ({ ...header, rawValue: Buffer.alloc(0) })),
    requestHeadersToAdd: [],
    rawBody: Buffer.from(response.rawBody ?? []),
    dynamicMetadata: response.dynamicMetadata === undefined ? null : wireStruct(response.dynamicMetadata),
    quota: null,
  };
}

function wireStruct(struct: JsonObject): object {
  return { fields: Object.fromEntries(Object.entries(struct).map(([key, value]) => [key, wireValue(value)])) };
}

function wireValue(value: JsonValue): object {
  if (value === null) return { kind: "nullValue", nullValue: "NULL_VALUE" };
  if (typeof value === "number") return { kind: "numberValue", numberValue: value };
  if (typeof value === "string") return { kind: "stringValue", stringValue: value };
  if (typeof value === "boolean") return { kind: "boolValue", boolValue: value };
  if (value instanceof Array) return { kind: "listValue", listValue: { values: value.map(wireValue) } };
  return { kind: "structValue", structValue: wireStruct(value) };
}

describe("encodeRateLimitResponse", () => {
  test("writes what protobufjs reads as the same response", () => {
    fc.assert(
      fc.property(response, (response) => {
        expect(responseMessage.deserialize(encodeRateLimitResponse(response))).toEqual(wireResponse(response));
      }),
    );
  });

  test("leaves out what is at its default", () => {
    const bytes = encodeRateLimitResponse({ overallCode: "UNKNOWN", statuses: [], responseHeaders: [] });

    expect(bytes).toHaveLength(0);
  });

  test("writes a response of ten thousand statuses", () => {
    const statuses = Array.from({ length: 10_000 }, () => ({ code: "OK" as const, limitRemaining: 1 }));
    const read = responseMessage.deserialize(
      encodeRateLimitResponse({ overallCode: "OK", statuses, responseHeaders: [] }),
    );

    expect(read.statuses).toHaveLength(10_000);
  });
});
