/** Random limits and calls for comparisons of rate limit services, and the compared part of a response. */
import { setTimeout as sleep } from "node:timers/promises";
import type { RateLimitRequest } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitRequest";
import fc from "fast-check";
import type { RateLimitTestClient } from "./rate-limit-client.ts";

export const domains = ["d0", "d1", "d2", "d3", "d4", "d5"];
const keys = ["a", "b", "c"];
const values = ["v", "vw", "w", ""];

/** A descriptor of a limit file. */
export interface Spec {
  readonly key: string;
  readonly value: string | undefined;
  readonly rate_limit: object | undefined;
  readonly descriptors: readonly Spec[];
}

const unit = fc.constantFrom("hour", "day", "week", "month", "year");
const name = fc.constantFrom("n1", "n2", "n3");
const rateLimit = fc.oneof(
  { weight: 1, arbitrary: fc.constant({ unlimited: true }) },
  {
    weight: 8,
    arbitrary: fc
      .record(
        { unit, requests_per_unit: fc.nat(12), name, replaces: fc.subarray(["n4", "n5"]) },
        { requiredKeys: ["unit", "requests_per_unit"] },
      )
      .map(({ replaces, ...limit }) => ({
        ...limit,
        ...(replaces === undefined ? {} : { replaces: replaces.map((replaced) => ({ name: replaced })) }),
      })),
  },
  // The limits that others replace.
  { weight: 2, arbitrary: fc.record({ unit, requests_per_unit: fc.nat(5), name: fc.constantFrom("n4", "n5") }) },
);

/** Descriptors of a limit file, nested as deep as `depth`. */
export function specs(depth: number): fc.Arbitrary<readonly Spec[]> {
  const value = fc.constantFrom(undefined, "v", "w", "v*", "*");
  const node = fc
    .record({
      key: fc.constantFrom(...keys),
      value,
      rate_limit: fc.option(rateLimit, { nil: undefined, freq: 4 }),
      shadow_mode: fc.constantFrom(false, false, true),
      share_threshold: fc.boolean(),
      descriptors: depth > 0 ? specs(depth - 1) : fc.constant([]),
    })
    .map(({ share_threshold, ...spec }) => ({
      ...spec,
      ...(share_threshold && spec.value?.endsWith("*") === true ? { share_threshold } : {}),
    }));
  // JSON is YAML, and leaves out undefined members.
  return fc.uniqueArray(node, { maxLength: 5, selector: (spec) => `${spec.key}_${spec.value ?? ""}` });
}

export const requestDescriptor = fc
  .record({
    entries: fc.array(fc.record({ key: fc.constantFrom(...keys), value: fc.constantFrom(...values) }), {
      minLength: 1,
      maxLength: 3,
    }),
    hits: fc.constantFrom(undefined, undefined, 0, 1, 2, 7),
    override: fc.option(
      fc.record({ requestsPerUnit: fc.nat(9), unit: fc.constantFrom("HOUR", "DAY", "MONTH", "YEAR") } as const),
      { nil: undefined, freq: 8 },
    ),
  })
  .map(({ entries, hits, override }) => ({
    entries,
    ...(hits === undefined ? {} : { hitsAddend: { value: hits } }),
    ...(override === undefined ? {} : { limit: override }),
  }));

export const request: fc.Arbitrary<RateLimitRequest> = fc.record({
  domain: fc.constantFrom(...domains, "unknown"),
  descriptors: fc.array(requestDescriptor, { minLength: 1, maxLength: 4 }),
  hitsAddend: fc.constantFrom(0, 0, 0, 1, 3),
});

/** The compared part: everything that a client acts on, except times, which may be in two different seconds. */
export async function comparedResponse(client: RateLimitTestClient, call: RateLimitRequest) {
  const outcome = await client.outcome(call);
  if ("code" in outcome) return { response: outcome, resets: [] };
  const { overallCode, statuses, responseHeadersToAdd } = outcome;
  const headers = responseHeadersToAdd.filter(({ key }) => !key.endsWith("Reset"));
  return {
    response: {
      overallCode,
      statuses: statuses.map(({ code, currentLimit, limitRemaining }) => ({ code, currentLimit, limitRemaining })),
      headers: headers.map(({ key, value }) => `${key}: ${value}`),
    },
    resets: statuses.map(({ durationUntilReset }) => Number(durationUntilReset?.seconds ?? -1)),
  };
}

/**
 * Waits for the next hour if less than `neededMs` is left of this one: a window that ends during the calls would start
 * again for one service before the other.
 */
export async function leaveTheHour(neededMs = 90_000): Promise<void> {
  const leftMs = 3_600_000 - (Date.now() % 3_600_000);
  if (leftMs < neededMs) await sleep(leftMs + 500);
}
