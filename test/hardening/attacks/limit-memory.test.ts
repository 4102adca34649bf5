/**
 * A tenant writes policies that are as large as the API accepts. The memory that a worker uses for them is bounded,
 * however many limits and expressions they have.
 */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { expect, test } from "vitest";
import { batchesOf, SentParts } from "../../../proxy/src/app/sent-parts.ts";
import { type PackedSnapshot, packSnapshot, ReceivedParts } from "../../../proxy/src/app/snapshot-parts.ts";
import { CounterTable, createCounters } from "../../../proxy/src/policy/ratelimit/counter-table.ts";
import { compileLimits } from "../../../proxy/src/policy/ratelimit/local-limiter.ts";
import {
  maxServedDenialLength,
  maxServedExpressionLength,
  maxServedLimits,
} from "../../../proxy/src/translate/policy/limit-budget.ts";
import { translate } from "../../../proxy/src/translate/translate.ts";
import { usedMemory } from "../../support/memory.ts";
import {
  gateway,
  gatewayClass,
  http,
  minute,
  policy,
  read,
  route,
  routeTarget,
  times,
} from "../support/tenant-objects.ts";

/** Policies with 16 entries each, four of them on each route. */
function policies(
  count: number,
  targets: number,
  nameEnd: string,
  key: (at: number) => string,
  fields: (at: number) => object = () => ({}),
): readonly object[] {
  const routeOf = (at: number) => `r${at}${nameEnd}`;
  return [
    gateway("web", [http]),
    ...times(Math.ceil(count / 4) * targets, (at) => route(routeOf(at), [{}], { hostnames: [`h${at}.test`] })),
    ...times(count, (at) =>
      policy(
        `p${at}${nameEnd}`,
        times(targets, (index) => routeTarget(routeOf(Math.floor(at / 4) * targets + index))),
        times(16, (entry) => ({ ...minute, key: key(at * 16 + entry) })),
        fields(at),
      ),
    ),
  ];
}

/** Characters of the longest response to denials. */
const longestDenial = 2_048 + 16 * (64 + 512);

/** As long as the API accepts, and different for each policy. */
function longDenial(at: number): object {
  const headers = times(16, (index) => ({ name: `x-${index}-${at}-`.padEnd(64, "a"), value: "v".repeat(512) }));
  return {
    headers: ["XRateLimit", "Ietf", "OpenAI"],
    denied: { body: `☃${at}`.padEnd(2_048, "b"), headers },
  };
}

function packedFor(objects: readonly object[]): PackedSnapshot {
  const { binds, backends } = translate(read([gatewayClass, ...objects]));
  return runToEnd(packSnapshot({ generation: 1, binds, backends }));
}

test.each([
  [
    "limits with long names",
    policies(160, 16, `-${"x".repeat(240)}`, (at) => `request.headers["x-${at % 16}"]`),
    maxServedLimits,
    1_000 * maxServedLimits,
  ],
  [
    "expressions with many operators",
    policies(256, 1, "", (at) => `"${String(at).padStart(5)}"${"+request.path".repeat(77)}`),
    Math.floor(maxServedExpressionLength / 1_008 / 16) * 16,
    100 * maxServedExpressionLength,
  ],
  [
    "long responses to denials",
    policies(200, 1, "", () => "source.address", longDenial),
    Math.floor(maxServedDenialLength / longestDenial) * 16,
    4 * maxServedDenialLength,
  ],
])(
  "%s take a bounded part of the memory of a worker",
  async (_name, objects, limits, maxBytes) => {
    const packed = packedFor(objects);
    const before = await usedMemory();
    const received = new ReceivedParts();
    for (const batch of batchesOf(new SentParts().next(packed.groups).added)) received.add(structuredClone(batch));
    const snapshot = runToEnd(received.assemble(packed.frame));
    const table = new CounterTable(createCounters(1_024, 2), 1);
    const rules = snapshot.binds.flatMap(({ listeners }) =>
      listeners.flatMap(({ routes }) => routes.flatMap((each) => each.rules)),
    );
    const compiled = rules.map((rule) => compileLimits(rule.limits, table));
    const taken = (await usedMemory()) - before;
    expect(compiled.reduce((sum, set) => sum + set.limits.length, 0)).toBe(limits);
    expect(taken).toBeLessThan(maxBytes);
  },
  300_000,
);
