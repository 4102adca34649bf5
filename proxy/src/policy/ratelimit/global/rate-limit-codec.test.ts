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
import type { RateLimitCall } from "./messages.ts";
import { decodeRateLimitAnswer, encodeRateLimitCall } from "./rate-limit-codec.ts";

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

const anyCall: fc.Arbitrary<RateLimitCall> = fc.record({
  domain: text,
  hits: fc.option(fc.nat(0xffff_ffff), { nil: undefined }),
  descriptors: fc.array(
    fc.record({
      entries: fc.array(fc.record({ key: text, value: text }), { maxLength: 4 }),
      limitOverride: fc.option(fc.record({ requestsPerUnit: fc.nat(0x7fff_ffff), unit: fc.constantFrom(...units) }), {
        nil: undefined,
      }),
      hits: fc.option(fc.maxSafeNat(), { nil: undefined }),
    }),
    { maxLength: 4 },
  ),
});

describe("a call", () => {
  test("is read by a general codec as it was meant", () => {
    fc.assert(
      fc.property(anyCall, (call) => {
        const read = requestMessage.deserialize(encodeRateLimitCall(call));
        expect(read.domain).toBe(call.domain);
        expect(read.hitsAddend).toBe(call.hits ?? 0);
        expect(
          read.descriptors.map(({ entries, limit, hitsAddend }) => ({
            entries,
            limit: limit && [limit.requestsPerUnit, limit.unit],
            hits: hitsAddend?.value,
          })),
        ).toEqual(
          call.descriptors.map(({ entries, limitOverride, hits }) => ({
            entries,
            limit:
              limitOverride === undefined ? null : [limitOverride.requestsPerUnit, limitOverride.unit.toUpperCase()],
            hits: hits === undefined ? undefined : String(hits),
          })),
        );
      }),
    );
  });
});

describe("an answer", () => {
  const anyAnswer = fc.record({
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

  test("of a general codec is read as it was meant", () => {
    fc.assert(
      fc.property(anyAnswer, (answer) => {
        const read = decodeRateLimitAnswer(responseMessage.serialize(answer));
        expect(read).toEqual({
          overallCode: answer.overallCode,
          statuses: answer.statuses.map(({ code, currentLimit, limitRemaining, durationUntilReset }) => ({
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
          responseHeaders: answer.responseHeadersToAdd.map(({ key, value }) => ({ name: key.toLowerCase(), value })),
          requestHeaders: answer.requestHeadersToAdd.map(({ key, value }) => ({ name: key.toLowerCase(), value })),
          rawBody: answer.rawBody.length === 0 ? undefined : answer.rawBody,
        });
      }),
    );
  });

  test("is read or refused, whatever the bytes, and refused as what it is", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          decodeRateLimitAnswer(Buffer.from(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(WireError);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("may have fields and numbers that nobody knew when this was written", () => {
    const known = responseMessage.serialize({ overallCode: "OK" });
    const unknownField = Buffer.from([(15 << 3) | 0, 7]);
    expect(decodeRateLimitAnswer(Buffer.concat([unknownField, known])).overallCode).toBe("OK");
    expect(decodeRateLimitAnswer(Buffer.from([8, 99])).overallCode).toBe("UNKNOWN");
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
    expect(decodeRateLimitAnswer(bytes).statuses[0]?.limit?.windowSeconds).toBe(window);
  });

  test.each([
    ["negative", { seconds: -5 }, undefined],
    ["negative in its fraction", { seconds: 0, nanos: -5 }, undefined],
    ["absurd", { seconds: "9000000000000000000" }, undefined],
    ["fractional", { seconds: 2, nanos: 500_000_000 }, 2_500],
  ])("a reset that is %s", (_, durationUntilReset, resetMs) => {
    const bytes = responseMessage.serialize({ overallCode: "OK", statuses: [{ durationUntilReset }] });
    expect(decodeRateLimitAnswer(bytes).statuses[0]?.resetMs).toBe(resetMs);
  });

  test("may have a header's value as bytes", () => {
    const key = Buffer.from([10, 1, 0x58]);
    const raw = Buffer.from([26, 2, 0x61, 0xe9]);
    const bytes = Buffer.concat([Buffer.from([8, 1, 26, key.length + raw.length]), key, raw]);
    expect(decodeRateLimitAnswer(bytes).responseHeaders).toEqual([{ name: "x", value: "aé" }]);
  });
});
