import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Descriptor, RateLimitRequest } from "./model/rate-limit.ts";
import { RateLimitError } from "./service.ts";
import { createStoreMemory, MemoryTables } from "./store/memory-tables.ts";
import { MemoryStore } from "./store/memory-store.ts";
import { createCore } from "./testing/acceptance/core.ts";
import { parseCall } from "./testing/acceptance/notation.ts";

function core() {
  return createCore((clock) => new MemoryStore(new MemoryTables(createStoreMemory(256), 1), clock));
}

/** `code: message` of a call's rejection. */
async function rejection(request: RateLimitRequest, { service } = core()): Promise<string> {
  try {
    await service.shouldRateLimit(request);
    return "allowed";
  } catch (error) {
    return error instanceof RateLimitError ? `${error.code}: ${error.message}` : String(error);
  }
}

function withDescriptor(more: Partial<Descriptor>): RateLimitRequest {
  return { domain: "probe", descriptors: [{ entries: [{ key: "ten", value: "a" }], ...more }], hitsAddend: 0 };
}

describe("case 59: a call that asks nothing is rejected in the reference's words", () => {
  test.each([
    ["an empty domain", parseCall("", ["ten=a"]), "EmptyDomain: rate limit domain must not be empty"],
    ["no descriptors", parseCall("probe", []), "NoDescriptors: rate limit descriptor list must not be empty"],
  ])("%s", async (_, request, text) => {
    expect(await rejection(request)).toBe(text);
  });

  test("case 66: before any configuration was loaded", async () => {
    const started = core();
    started.config.apply({ parts: [], problems: [{ message: "broken" }], warnings: [] });
    expect(await rejection(parseCall("probe", ["ten=a"]), started)).toBe(
      "NoConfig: no rate limit configuration loaded",
    );
    expect(started.stats.service).toMatchObject({ serviceError: 1, configLoadError: 1, configLoadSuccess: 1 });
    expect(started.config.hasDomains).toBe(false);
  });
});

describe("case 44: a descriptor that makes no sense is an invalid argument", () => {
  const units = "SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, YEAR";
  test.each<[string, Partial<Descriptor>, string]>([
    [
      "an unknown unit",
      { limit: { requestsPerUnit: 2, unit: "UNKNOWN" } },
      `limit unit 'UNKNOWN' must be one of ${units}`,
    ],
    ["a unit that no enum has", { limit: { requestsPerUnit: 2, unit: "8" } }, `limit unit '8' must be one of ${units}`],
    [
      "a fraction of a request",
      { limit: { requestsPerUnit: 0.5, unit: "DAY" } },
      "limit requests_per_unit 0.5 must be 0 to 4294967295",
    ],
    [
      "a window of nothing",
      { limit: { requestsPerUnit: 1, unit: "DAY", unitMultiplier: 0 } },
      "limit unit_multiplier 0 must be 1 to 4294967295",
    ],
    [
      "a window beyond all time",
      { limit: { requestsPerUnit: 1, unit: "YEAR", unitMultiplier: 4_000_000_000 } },
      "limit window of 126144000000000000 s must be at most 315576000000 s",
    ],
    [
      "an empty key",
      {
        entries: [
          { key: "a", value: "b" },
          { key: "", value: "c" },
        ],
      },
      "entry 1 has an empty key",
    ],
    ["half a hit", { hitsAddend: 0.5 }, "hits_addend 0.5 must be a whole number from 0"],
  ])("%s", async (_, descriptor, text) => {
    expect(await rejection(withDescriptor(descriptor))).toBe(`InvalidArgument: descriptor 0: ${text}`);
  });

  test("and rejects the call as a whole, before anything is counted", async () => {
    const running = core();
    const broken = { entries: [], limit: { requestsPerUnit: 1, unit: "" } };
    const { descriptors } = withDescriptor({});
    expect(await rejection({ domain: "probe", descriptors: [...descriptors, broken], hitsAddend: 0 }, running)).toMatch(
      /descriptor 1/,
    );
    expect(await running.service.shouldRateLimit(withDescriptor({}))).toMatchObject({
      statuses: [{ limitRemaining: 9 }],
    });
    expect(running.stats.service).toMatchObject({ serviceError: 1, storeError: 0 });
  });
});

describe("whatever is asked", () => {
  const entry = fc.record({ key: fc.constantFrom("ten", "zero", "key1", "files", "", "ü"), value: fc.string() });
  const override = fc.record({
    requestsPerUnit: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.double()),
    unit: fc.constantFrom("DAY", "SECOND", "UNKNOWN", "WEEK", "", "99"),
  });
  const descriptor: fc.Arbitrary<Descriptor> = fc.record(
    {
      entries: fc.array(entry, { maxLength: 4 }),
      limit: override,
      hitsAddend: fc.oneof(fc.nat(20), fc.double(), fc.constantFrom(Number.MAX_SAFE_INTEGER, 2 ** 64)),
      isNegativeHits: fc.boolean(),
    },
    { requiredKeys: ["entries"] },
  );
  const request = fc.record({
    domain: fc.constantFrom("probe", "basic-domain", "share-domain", "nope", ""),
    descriptors: fc.array(descriptor, { maxLength: 5 }),
    hitsAddend: fc.nat(5),
  });

  test("the response is sound, or the rejection is one of this service", async () => {
    const running = core();
    await fc.assert(
      fc.asyncProperty(request, async (call) => {
        const outcome = await Promise.resolve()
          .then(() => running.service.shouldRateLimit(call))
          .catch((error: unknown) => error);
        if (outcome instanceof RateLimitError) return;
        if (outcome instanceof Error) throw outcome;
        expect(outcome).toMatchObject({ statuses: { length: call.descriptors.length } });
        expect(JSON.stringify(outcome)).not.toMatch(/NaN|Infinity|-\d/);
      }),
      { numRuns: 2_000 },
    );
  });
});
