import calculateSlot from "cluster-key-slot";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ConfigSet } from "../config/config-set.ts";
import type { Rule } from "../config/rule.ts";
import { createStoreMemory, MemoryTables } from "../store/memory-tables.ts";
import { MemoryStore } from "../store/memory-store.ts";
import { caseStartSeconds } from "../testing/acceptance/case.ts";
import { createCore } from "../testing/acceptance/core.ts";
import { parseCall } from "../testing/acceptance/notation.ts";
import { counterKey, domainKeyPrefixes, runtimeSegments, shownCounterKey, taggedKey, windowKey } from "./keys.ts";
import { findRule } from "./match.ts";
import type { LimitWindow } from "../model/limit-window.ts";
import type { DescriptorEntry } from "../model/rate-limit.ts";

/** The counters that a call leaves behind, and the series it is counted in. */
async function namesOf(domain: string, ...descriptors: readonly string[]) {
  let store: MemoryStore | undefined;
  const core = createCore((clock) => (store = new MemoryStore(new MemoryTables(createStoreMemory(64), 1), clock)));
  await core.service.shouldRateLimit(parseCall(domain, descriptors));
  return {
    keys: [...(store?.liveCounters() ?? [])].map(({ key }) => key),
    series: [...core.stats.series()].map(({ segments, domain: name }) => [name, ...segments].join(".")),
  };
}

const minute = caseStartSeconds - (caseStartSeconds % 60);
const day = caseStartSeconds - (caseStartSeconds % 86_400);

test.each([
  ["a bare key", "basic-domain", "key2=x", `basic-domain_key2_x_${minute}`, "basic-domain.key2"],
  ["an exact value", "basic-domain", "key2=value2", `basic-domain_key2_value2_${minute}`, "basic-domain.key2_value2"],
  [
    "several entries",
    "basic-domain",
    "key1=value1,subkey1=subvalue1",
    `basic-domain_key1_value1_subkey1_subvalue1_${caseStartSeconds}`,
    "basic-domain.key1_value1.subkey1_subvalue1",
  ],
  ["an empty value", "basic-domain", "key2=", `basic-domain_key2__${minute}`, "basic-domain.key2"],
  ["a wildcard", "wild-domain", "wild=foo1", `wild-domain_wild_foo1_${minute}`, "wild-domain.wild_foo*"],
  [
    "a shared wildcard",
    "share-domain",
    "files=files/a.pdf",
    `share-domain_files_files/*_${minute}`,
    "share-domain.files_files/*",
  ],
  [
    "a shared wildcard within others",
    "share-domain",
    "path=path/1,file=file/1,type=a",
    `share-domain_path_path/*_file_file/1_type_a_${minute}`,
    "share-domain.path_path/*.file_file/*.type",
  ],
  [
    "value_to_metric on a shared level, which stays shared",
    "share-domain",
    "route=api/v1,method=GET",
    `share-domain_route_api/*_method_GET_${minute}`,
    "share-domain.route_api/*.method",
  ],
  [
    "case 62: detailed_metric",
    "rl",
    "unspec=unspecified_value",
    `rl_unspec_unspecified_value_${minute}`,
    "rl.unspec_unspecified_value",
  ],
  ["an override", "probe", "a=b,c=d @7/DAY", `probe_a_b_c_d_${day}`, "probe.a_b.c_d"],
])("names of %s", async (_, domain, descriptor, key, series) => {
  expect(await namesOf(domain, descriptor)).toEqual({ keys: [key], series: [series] });
});

/** Of `counterKey` only the domain and this flag matter. */
const ruleOf = (domain: string) => ({ domain, sharesThreshold: false }) as Rule;
const word = fc.string({ unit: fc.constantFrom("a", "b", "_", "%", "5", "F", ""), maxLength: 6 });
const descriptor = fc.tuple(word, fc.array(fc.record({ key: word, value: word }), { minLength: 1, maxLength: 3 }));

test("escaped keys are the same for the same descriptors only", () => {
  const keyOf = ([domain, entries]: readonly [string, readonly DescriptorEntry[]]) =>
    counterKey({ cacheKeyPrefix: "p_", keyForm: "escaped" }, ruleOf(domain), entries, 60);
  fc.assert(
    fc.property(descriptor, descriptor, (a, b) => {
      expect(keyOf(a) === keyOf(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
    }),
    { numRuns: 2_000 },
  );
});

const windows: readonly LimitWindow[] = [
  { kind: "fixed", windowSeconds: 60 },
  { kind: "calendar", unit: "Months", every: 3, timeZone: "America/New_York" },
  { kind: "sliding", windowSeconds: 60 },
];

test("keys of other windows are those of one descriptor and window, have one slot, and are never keys of plain ones", () => {
  const character = fc.constantFrom("a", "_", "%", "{", "}", "7", "-", "B", "");
  const part = fc.oneof(fc.string({ unit: character, maxLength: 6 }), fc.constantFrom("}sliding-60", "_}fixed-60-60"));
  const named = fc.tuple(part, fc.array(fc.record({ key: part, value: part }), { minLength: 1, maxLength: 3 }));
  const options = { cacheKeyPrefix: "p{_", keyForm: "reference" } as const;
  const keysOf = ([domain, entries]: readonly [string, readonly DescriptorEntry[]]) => {
    const tagged = taggedKey(options, ruleOf(domain), entries);
    return windows.map((window) => windowKey(tagged, window, window.kind === "sliding" ? undefined : 60));
  };
  fc.assert(
    fc.property(named, named, (a, b) => {
      const [ofA, ofB] = [keysOf(a), keysOf(b)];
      const plain = [a, b].flatMap(([domain, entries]) =>
        (["reference", "escaped"] as const).map((keyForm) =>
          counterKey({ ...options, keyForm }, ruleOf(domain), entries, 60),
        ),
      );
      expect(new Set(ofA.map((key) => calculateSlot(key))).size).toBe(1);
      expect(new Set(ofA).size).toBe(windows.length);
      expect(ofA.some((key) => plain.includes(key))).toBe(false);
      expect(ofA.some((key) => ofB.includes(key))).toBe(JSON.stringify(a) === JSON.stringify(b));
      const prefixes = domainKeyPrefixes(options, a[0]);
      expect(ofA.every((key) => prefixes.some((prefix) => key.startsWith(prefix)))).toBe(true);
      expect(ofB.every((key) => prefixes.some((prefix) => key.startsWith(prefix)))).toBe(a[0] === b[0]);
    }),
    { numRuns: 2_000 },
  );
});

test("a value with underscores has no counter of another descriptor, unless the reference's keys are asked for", () => {
  const [one, other] = [
    [{ key: "user", value: "bob_plan_gold" }],
    [
      { key: "user", value: "bob" },
      { key: "plan", value: "gold" },
    ],
  ];
  const keyOf = (keyForm: "reference" | "escaped", entries: readonly DescriptorEntry[] = []) =>
    counterKey({ cacheKeyPrefix: "", keyForm }, ruleOf("rl"), entries, 60);
  expect(keyOf("escaped", one)).toBe("rl_user_bob%5Fplan%5Fgold_60");
  expect(keyOf("escaped", other)).toBe("rl_user_bob_plan_gold_60");
  expect(keyOf("reference", one)).toBe(keyOf("reference", other));
});

test("values that fit one shared wildcard have one counter, wherever the key of the entry ends", () => {
  const text =
    "domain: d\ndescriptors: [{key: a_b, value: v*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 5}}]\n";
  const level = new ConfigSet(false).update([{ key: "d", file: "d.yaml", text }]).config?.domains.get("d");
  if (level === undefined) throw new Error("the file is not sound");
  const keysIn = (keyForm: "reference" | "escaped") =>
    [
      { key: "a_b", value: "v1" },
      { key: "a", value: "b_v2" },
    ].map((entry) => {
      const rule = findRule(level, [entry]);
      if (rule === undefined) throw new Error("no rule fits");
      return [counterKey({ cacheKeyPrefix: "", keyForm }, rule, [entry], 60), runtimeSegments(rule, [entry])];
    });
  expect(keysIn("reference")).toEqual(Array(2).fill(["d_a_b_v*_60", ["a_b_v*"]]));
  expect(keysIn("escaped")).toEqual(Array(2).fill(["d_a%5Fb_v*_60", ["a_b_v*"]]));
});

test("keys are shown without values that may be credentials", () => {
  const shown = (entries: readonly DescriptorEntry[]) =>
    shownCounterKey(counterKey({ cacheKeyPrefix: "", keyForm: "escaped" }, ruleOf("rl"), entries, 60));
  expect(
    shown([
      { key: "api_key", value: "canary-client-api-key" },
      { key: "user", value: "a_b" },
    ]),
  ).toBe("rl_api%5Fkey_sha256:ad81f266…-key_user_a%5Fb_60");
  expect(shown([{ key: "client", value: "sk-proj-abcdefghijklmnop" }])).not.toContain("abcdefgh");
  // The path of Envoy, with its query.
  expect(shown([{ key: "path", value: `/${"v".repeat(80)}?limit=5&access_token=MARK` }])).not.toContain("MARK");
  expect(shown([{ key: "path", value: "/v1?limit=5" }])).toBe("rl_path_/v1?limit=5_60");
  const entries = [{ key: "api_key", value: "canary-client-api-key" }];
  const tagged = taggedKey({ cacheKeyPrefix: "", keyForm: "escaped" }, ruleOf("rl"), entries);
  expect(windows.map((window) => shownCounterKey(windowKey(tagged, window, 60)))).toEqual([
    "{rl_api%5Fkey_sha256:ad81f266…-key_}fixed-60-60",
    "{rl_api%5Fkey_sha256:ad81f266…-key_}calendar-3-Months-America/New%5FYork-60",
    "{rl_api%5Fkey_sha256:ad81f266…-key_}sliding-60-60",
  ]);
});
