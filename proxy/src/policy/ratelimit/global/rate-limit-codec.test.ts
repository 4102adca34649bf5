import { loadProtos, messageOf } from "@gatewayproxy/protos/load";
import type {
  RateLimitRequest as WireRequest,
  RateLimitRequest__Output as WireRequestOutput,
} from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitRequest";
import type {
  RateLimitResponse as WireResponse,
  RateLimitResponse__Output as WireResponseOutput,
} from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitResponse";
import { WireError } from "@gatewayproxy/protos/wire-reader";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { OverrideUnit } from "../../../ir/global-limit.ts";
import type { RateLimitRequest } from "./messages.ts";
import { decodeRateLimitResponse, encodeRateLimitRequest } from "./rate-limit-codec.ts";

const definitions = loadProtos("envoy/service/ratelimit/v3/rls.proto");
const requestMessage = messageOf<WireRequest, WireRequestOutput>(
  definitions,
  "envoy.service.ratelimit.v3.RateLimitRequest",
);
const responseMessage = messageOf<WireResponse, WireResponseOutput>(
  definitions,
  "envoy.service.ratelimit.v3.RateLimitResponse",
);

const text = fc.string({ unit: "binary", maxLength: 60 });
const units: readonly OverrideUnit[] = ["Second", "Minute", "Hour", "Day", "Month", "Year"];

const anyCall: fc.Arbitrary<RateLimitRequest> = fc.record({
  domain: text,
  hits: fc.option(fc.nat(0xffff_ffff), { nil: undefined }),
  descriptors: fc.array(
    fc.record({
      entries: fc.array(fc.record({ key: text, value: text }), { maxLength: 4 }),
      limitOverride: fc.option(fc.record({ requestsPerUnit: fc.nat(0x7fff_ffff), unit: fc.constantFrom(...units) }), {
        nil: undefined,
      }),
      hits: fc.option(fc.maxSafeNat(), { nil: undefined }),
      isRefund: fc.boolean(),
    }),
    { maxLength: 4 },
  ),
});

describe("a call", () => {
  test("is decoded alike by a general codec", () => {
    fc.assert(
      fc.property(anyCall, (call) => {
        const read = requestMessage.deserialize(encodeRateLimitRequest(call));
        expect(read.domain).toBe(call.domain);
        expect(read.hitsAddend).toBe(call.hits ?? 0);
        expect(
          read.descriptors.map(({ entries, limit, hitsAddend, isNegativeHits }) => ({
            entries,
            limit: limit && [limit.requestsPerUnit, limit.unit],
            hits: hitsAddend?.value,
            isRefund: isNegativeHits,
          })),
        ).toEqual(
          call.descriptors.map(({ entries, limitOverride, hits, isRefund }) => ({
            entries,
            limit:
              limitOverride === undefined ? null : [limitOverride.requestsPerUnit, limitOverride.unit.toUpperCase()],
            hits: hits === undefined ? undefined : String(hits),
            isRefund,
          })),
        );
      }),
    );
  });
});

describe("a response", () => {
  const anyResponse = fc.record({
    overallCode: fc.constantFrom("UNKNOWN" as const, "OK" as const, "OVER_LIMIT" as const),
    statuses: fc.array(
      fc.record({
        code: fc.constantFrom("UNKNOWN" as const, "OK" as const, "OVER_LIMIT" as const),
        currentLimit: fc.option(
          fc.record({
            requestsPerUnit: fc.nat(0xffff_ffff),
            unit: fc.constantFrom(
              0 as const,
              1 as const,
              2 as const,
              3 as const,
              4 as const,
              5 as const,
              6 as const,
              7 as const,
            ),
            name: text,
          }),
          { nil: null },
        ),
        limitRemaining: fc.nat(0xffff_ffff),
        durationUntilReset: fc.option(fc.record({ seconds: fc.nat(100_000), nanos: fc.nat(999_999_999) }), {
          nil: null,
        }),
      }),
      { maxLength: 4 },
    ),
    responseHeadersToAdd: fc.array(fc.record({ key: text, value: text }), { maxLength: 4 }),
    requestHeadersToAdd: fc.array(fc.record({ key: text, value: text }), { maxLength: 2 }),
    rawBody: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  });
  const seconds = [undefined, 1, 60, 3_600, 86_400, 2_592_000, 31_536_000, 604_800];

  test("of a general codec is decoded alike", () => {
    fc.assert(
      fc.property(anyResponse, (response) => {
        const read = decodeRateLimitResponse(responseMessage.serialize(response));
        expect(read).toEqual({
          overallCode: response.overallCode,
          statuses: response.statuses.map(({ code, currentLimit, limitRemaining, durationUntilReset }) => ({
            code,
            limit:
              currentLimit === null
                ? undefined
                : {
                    requestsPerUnit: currentLimit.requestsPerUnit,
                    windowSeconds: seconds[currentLimit.unit],
                    name: currentLimit.name,
                  },
            remaining: limitRemaining,
            resetMs:
              durationUntilReset === null
                ? undefined
                : durationUntilReset.seconds * 1_000 + durationUntilReset.nanos / 1_000_000,
          })),
          responseHeaders: response.responseHeadersToAdd.map(({ key, value }) => ({ name: key.toLowerCase(), value })),
          requestHeaders: response.requestHeadersToAdd.map(({ key, value }) => ({ name: key.toLowerCase(), value })),
          rawBody: response.rawBody.length === 0 ? undefined : response.rawBody,
        });
      }),
    );
  });

  test("is decoded, or rejected with a WireError, whatever the bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          decodeRateLimitResponse(Buffer.from(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(WireError);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("may have unknown fields and numbers", () => {
    const known = responseMessage.serialize({ overallCode: "OK" });
    const unknownField = Buffer.from([(15 << 3) | 0, 7]);
    expect(decodeRateLimitResponse(Buffer.concat([unknownField, known])).overallCode).toBe("OK");
    expect(decodeRateLimitResponse(Buffer.from([8, 99])).overallCode).toBe("UNKNOWN");
  });

  test.each([
    // A unit of the future, which the types of today do not have.
    ["of an unknown unit has no window", { requestsPerUnit: 5, unit: 42 as 7 }, undefined],
    ["of unit UNKNOWN has no window", { requestsPerUnit: 5 }, undefined],
    ["of a week has seven days", { requestsPerUnit: 5, unit: 7 as const }, 604_800],
    ["of a multiple has a longer window", { requestsPerUnit: 5, unit: 2 as const, unitMultiplier: { value: 5 } }, 300],
    [
      "of a multiplier of 0 has the window of its unit",
      { requestsPerUnit: 5, unit: 2 as const, unitMultiplier: {} },
      60,
    ],
  ])("a limit %s", (_, currentLimit, window) => {
    const bytes = responseMessage.serialize({ overallCode: "OK", statuses: [{ code: "OK", currentLimit }] });
    expect(decodeRateLimitResponse(bytes).statuses[0]?.limit?.windowSeconds).toBe(window);
  });

  test.each([
    ["negative", { seconds: -5 }, undefined],
    ["negative in its fraction", { seconds: 0, nanos: -5 }, undefined],
    ["absurd", { seconds: "9000000000000000000" }, undefined],
    ["fractional", { seconds: 2, nanos: 500_000_000 }, 2_500],
  ])("a reset that is %s", (_, durationUntilReset, resetMs) => {
    const bytes = responseMessage.serialize({ overallCode: "OK", statuses: [{ durationUntilReset }] });
    expect(decodeRateLimitResponse(bytes).statuses[0]?.resetMs).toBe(resetMs);
  });

  test("may have a header's value as bytes", () => {
    const key = Buffer.from([10, 1, 0x58]);
    const raw = Buffer.from([26, 2, 0x61, 0xe9]);
    const bytes = Buffer.concat([Buffer.from([8, 1, 26, key.length + raw.length]), key, raw]);
    expect(decodeRateLimitResponse(bytes).responseHeaders).toEqual([{ name: "x", value: "aé" }]);
  });
});
