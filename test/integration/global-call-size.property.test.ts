/** No policy and no request make a call that this project's rate limit service rejects with its defaults. */
import { defaultCallBounds, defaultMaxCallBytes } from "../../ratelimit-service/src/limiter/call-bounds.ts";
import { decodeRateLimitRequest } from "../../ratelimit-service/src/transport/grpc/rate-limit-codec.ts";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { GlobalDescriptor, GlobalLimit } from "../../proxy/src/ir/global-limit.ts";
import type { RequestView } from "../../proxy/src/cel/request-view.ts";
import { areValuesTooLong } from "../../proxy/src/policy/ratelimit/global/call-size.ts";
import { chargeCallsOf, decisionCallsOf } from "../../proxy/src/policy/ratelimit/global/calls.ts";
import {
  chargeOf,
  compileDescriptor,
  describeRequest,
  type RequestDescriptor,
} from "../../proxy/src/policy/ratelimit/global/descriptors.ts";
import { encodeRateLimitRequest } from "../../proxy/src/policy/ratelimit/global/rate-limit-codec.ts";

/** Bounds of the API: `proxy/src/api/global-rate-limit.ts`. */
const [maxDescriptors, maxEntries, maxName, maxDomain] = [16, 16, 64, 256];

const expressions = [
  ...["a", "b", "c"].map((name) => `request.headers["${name}"]`),
  'request.headers["a"] + request.headers["b"]',
  "request.path",
  "request.host",
  "llm.requestModel",
  '"constant"',
];
/** Lists long lengths explicitly, as fast-check seldom makes long texts. */
const lengths = fc.oneof(fc.constantFrom(0, 1, 170, 512, 2_730, 2_731, 4_096, 8_192, 8_193, 60_000), fc.nat(9_000));
const unit = fc.constantFrom("a", "\u0000", "\u001f", "\u007f", "\u00ff", "\u20ac", "\ud83d\ude00", "\ud800", "\udc00");
const text = fc.tuple(unit, lengths).map(([part, length]) => part.repeat(length).slice(0, length));
const named = (max: number) => fc.string({ unit: "binary", minLength: 1, maxLength: max });
const amount = fc.constantFrom("1", "0", "-1", "1e300", "4294967296.0", "9007199254740991", "double(request.path)");

const descriptor: fc.Arbitrary<Omit<GlobalDescriptor, "index">> = fc.record({
  counts: fc.constantFrom("requests" as const, "tokens" as const),
  entries: fc.array(fc.record({ key: named(maxName), expression: fc.constantFrom(...expressions) }), {
    minLength: 1,
    maxLength: maxEntries,
    size: "max",
  }),
  cost: amount,
  limitOverride: fc.record({
    requestsPerUnit: fc.nat(0xffff_ffff),
    requestsPerUnitFrom: fc.constantFrom(
      'double(request.headers["a"])',
      "1e300 - 1.0",
      "-1",
      "0.0 / 0.0",
      "4294967295",
    ),
    unit: fc.constantFrom("Second", "Year"),
  }),
});

const limit = fc.record({
  domain: named(maxDomain),
  hitsMode: fc.constantFrom("Descriptor" as const, "Request" as const, "Kuadrant" as const),
  descriptors: fc.array(descriptor, { minLength: 1, maxLength: maxDescriptors, size: "max" }),
});

test("a call that is made is within the bounds of the service, and its amounts within those of a counter", () => {
  let [made, rejected, longest] = [0, 0, 0];
  fc.assert(
    fc.property(limit, fc.array(text, { minLength: 5, maxLength: 5 }), fc.maxSafeNat(), (policy, texts, tokens) => {
      const [a = "", b = "", c = "", path = "", model = ""] = texts;
      const view: RequestView = {
        ...{ method: "GET", path: `/${path}`, authority: "example.com", scheme: "http", sourceAddress: "192.0.2.1" },
        ...{ route: "default/chat", gateway: "default/web", rawHeaders: ["a", a, "b", b, "c", c] },
        llm: { requestModel: model },
      };
      const descriptors: RequestDescriptor[] = policy.descriptors.flatMap((each, index) => {
        const described = describeRequest(compileDescriptor({ ...each, index }, "HTTPRoute/n/r"), view);
        return typeof described === "string" ? [] : described;
      });
      if (areValuesTooLong(descriptors)) {
        rejected++;
        return;
      }
      // The calls read only this part of a limit.
      const global = policy as unknown as GlobalLimit;
      const charges = descriptors.map((each) => ({ descriptor: each, hits: chargeOf(each.compiled, view, tokens) }));
      for (const { call } of [...decisionCallsOf(global, descriptors), ...chargeCallsOf(global, charges, true)]) {
        made++;
        const message = encodeRateLimitRequest(call);
        longest = Math.max(longest, message.length);
        expect(message.length).toBeLessThan(defaultMaxCallBytes);
        const read = decodeRateLimitRequest(message, defaultCallBounds);
        expect(read.descriptors).toHaveLength(call.descriptors.length);
        for (const { entries, hitsAddend = 0, limit: override } of read.descriptors) {
          expect(hitsAddend).toBeLessThanOrEqual(0xffff_ffff);
          expect(override?.requestsPerUnit).toBeGreaterThanOrEqual(0);
          expect(override?.requestsPerUnit).toBeLessThanOrEqual(0xffff_ffff);
          for (const { value } of entries) expect(value).not.toBe("");
        }
      }
    }),
    { numRuns: 300 },
  );
  // Both sides of the bounds were tested.
  expect(rejected).toBeGreaterThan(0);
  expect(made).toBeGreaterThan(0);
  expect(longest).toBeGreaterThan(16_384);
});
