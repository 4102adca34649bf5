/** Calendar and sliding windows, and several limits of a descriptor, in a file. */
import { describe, expect, test } from "vitest";
import { parseConfigFile } from "./config-file.ts";
import { renderConfigProblem, sortProblems } from "./config-problem.ts";
import { ConfigSet } from "./config-set.ts";
import { buildDomain, type StoreAbilities } from "./descriptor-tree.ts";

const head = "domain: d\ndescriptors:\n  - key: a\n";

/** Each problem of a descriptor's lines, as it is logged. */
function problemsOf(lines: string, abilities: StoreAbilities = {}): readonly string[] {
  const { spec, problems } = parseConfigFile("d.yaml", "d.yaml", `${head}    ${lines}\n`);
  const built = spec === undefined ? [] : buildDomain(spec, abilities).problems;
  return sortProblems([...problems, ...built]).map(renderConfigProblem);
}

function ruleOf(lines: string) {
  const { config, problems } = new ConfigSet(false).update([{ key: "d", file: "d", text: `${head}    ${lines}\n` }]);
  expect(problems).toEqual([]);
  return config?.domains.get("d")?.byComposite.get("a")?.rule;
}

const base = "requests_per_unit: 5";

describe("a limit is", () => {
  test.each([
    ["unit: day, calendar: true", { unit: "Days", every: 1, timeZone: "UTC" }],
    ["unit: week, calendar: true, timezone: Europe/Berlin", { unit: "Weeks", every: 1, timeZone: "Europe/Berlin" }],
    ["unit: month, unit_multiplier: 3, calendar: true", { unit: "Months", every: 3, timeZone: "UTC" }],
    ["unit: year, unit_multiplier: 2, calendar: true", { unit: "Months", every: 24, timeZone: "UTC" }],
  ])("of the calendar with {%s}", (keys, window) => {
    expect(ruleOf(`rate_limit: {${keys}, ${base}}`)?.calendar).toEqual({ kind: "calendar", ...window });
  });

  test("sliding with window: sliding", () => {
    const rule = ruleOf(`rate_limit: {unit: minute, unit_multiplier: 2, window: sliding, ${base}}`);
    expect(rule?.group).toMatchObject({ limits: [{ window: { kind: "sliding", windowSeconds: 120 } }] });
  });

  test.each(["", ", window: fixed", ", calendar: false", ", calendar: ~, timezone: '', window: ''"])(
    "plain with {unit: day%s}",
    (keys) => {
      const plain = ruleOf(`rate_limit: {unit: day, ${base}${keys}}`);
      expect(plain).not.toHaveProperty("calendar");
      expect(plain).not.toHaveProperty("group");
    },
  );

  test("one of several with rate_limits", () => {
    const rule = ruleOf(
      `count_denied: true\n    rate_limits: [{unit: day, name: x, ${base}}, {unit: day, calendar: true, ${base}}]`,
    );
    expect(rule?.group).toEqual({
      countsDenied: true,
      limits: [
        { limit: { requestsPerUnit: 5, unit: "DAY", name: "x" }, window: { kind: "fixed", windowSeconds: 86_400 } },
        {
          limit: { requestsPerUnit: 5, unit: "DAY" },
          window: { kind: "calendar", unit: "Days", every: 1, timeZone: "UTC" },
        },
      ],
    });
  });
});

describe("a file is rejected with the place, what was found and what is accepted for", () => {
  test.each([
    [
      `rate_limit: {unit: hour, calendar: true, ${base}}`,
      "d.yaml:4:40 d.yaml: invalid rate limit unit 'hour' with calendar: true (accepted: day, week, month, year)",
    ],
    [
      `rate_limit: {unit: day, calendar: true, timezone: Europe/Berlim, ${base}}`,
      "d.yaml:4:55 d.yaml: invalid time zone 'Europe/Berlim' (accepted: a name of the IANA time zone database, such as Europe/Berlin; absent: UTC)",
    ],
    [
      `rate_limit: {unit: day, calendar: true, timezone: '+01:00', ${base}}`,
      "d.yaml:4:55 d.yaml: invalid time zone '+01:00' (accepted: a name of the IANA time zone database, such as Europe/Berlin; absent: UTC)",
    ],
    [
      `rate_limit: {unit: day, calendar: true, timezone: europe/berlin, ${base}}`,
      "d.yaml:4:55 d.yaml: invalid time zone 'europe/berlin' (accepted: a name of the IANA time zone database, such as Europe/Berlin; absent: UTC)",
    ],
    [
      `rate_limit: {unit: day, timezone: UTC, ${base}}`,
      "d.yaml:4:39 d.yaml: timezone means nothing without calendar: true (accepted: both, or neither)",
    ],
    [
      `rate_limit: {unit: day, calendar: true, window: sliding, ${base}}`,
      "d.yaml:4:53 d.yaml: a rate limit with calendar: true cannot be sliding (accepted: one of them)",
    ],
    [
      `rate_limit: {unit: day, window: calendar, ${base}}`,
      "d.yaml:4:37 d.yaml: invalid rate limit window 'calendar' (accepted: fixed, sliding; for windows of the calendar, calendar: true)",
    ],
    [
      `rate_limit: {unit: day, calendar: maybe, ${base}}`,
      "d.yaml:4:39 d.yaml: error loading config file: calendar must be true or false, found the text 'maybe'",
    ],
    [
      `rate_limit: {unit: year, unit_multiplier: 101, calendar: true, ${base}}`,
      "d.yaml:4:62 d.yaml: invalid rate limit unit multiplier '101' with calendar: true (accepted: windows of at most 100 years)",
    ],
    [
      "rate_limit: {unlimited: true, window: sliding}",
      "d.yaml:4:43 d.yaml: should not specify rate limit window when unlimited",
    ],
    ["rate_limits: []", "d.yaml:4:18 d.yaml: rate_limits has 0 limits (accepted: 1 to 8)"],
    [
      `rate_limits: {unit: day, ${base}}`,
      "d.yaml:4:18 d.yaml: error loading config file: rate_limits must be a list, found a mapping",
    ],
    [
      `rate_limits: [{unit: minute, unit_multiplier: 60, ${base}}, {unit: hour, ${base}}]`,
      "d.yaml:4:85 d.yaml: rate_limits has two limits with the same window (accepted: one limit for each window)",
    ],
    [
      "rate_limits: [{unlimited: true}]",
      "d.yaml:4:19 d.yaml: a limit of rate_limits cannot be unlimited (accepted: a limit, or none)",
    ],
    [
      `rate_limits: [{unit: decade, ${base}}]`,
      "d.yaml:4:26 d.yaml: invalid rate limit unit 'decade' (accepted: second, minute, hour, day, week, month, year)",
    ],
    [
      `rate_limits: [{unit: hour, ${base}}]\n    rate_limit: {unit: day, ${base}}`,
      "d.yaml:4:18 d.yaml: a descriptor has rate_limit and rate_limits (accepted: one of them)",
    ],
    [
      `count_denied: true\n    rate_limit: {unit: day, ${base}}`,
      "d.yaml:3:5 d.yaml: count_denied means nothing for this descriptor (accepted with rate_limits and with window: sliding; other limits count every hit)",
    ],
    [
      `calendar: true\n    rate_limit: {unit: day, ${base}}`,
      "d.yaml:4:5 d.yaml: config error, key 'calendar' means nothing in a descriptor (accepted in a rate limit)",
    ],
    [
      `rate_limit: {unit: day, count_denied: true, ${base}}`,
      "d.yaml:4:29 d.yaml: config error, key 'count_denied' means nothing in a rate limit (accepted in a descriptor)",
    ],
  ])("%s", (lines, problem) => {
    expect(problemsOf(lines)).toEqual([problem]);
  });

  test("more limits than a call may read", () => {
    const limits = Array.from({ length: 9 }, (_, i) => `{unit: hour, unit_multiplier: ${i + 1}, ${base}}`);
    expect(problemsOf(`rate_limits: [${limits.join(", ")}]`)).toEqual([
      "d.yaml:4:18 d.yaml: rate_limits has 9 limits (accepted: 1 to 8)",
    ]);
    expect(problemsOf(`rate_limits: [${limits.slice(1).join(", ")}]`)).toEqual([]);
  });

  test.each([
    [`rate_limits: [{unit: day, ${base}}]`, "4:18 d.yaml: rate_limits"],
    [`rate_limit: {unit: day, window: sliding, ${base}}`, "4:37 d.yaml: a sliding window"],
  ])("%s with a store that has no groups of counters", (lines, place) => {
    expect(problemsOf(lines, { withoutGroups: "memcache" })).toEqual([
      `d.yaml:${place} cannot be counted with BACKEND_TYPE=memcache (accepted: memory, redis)`,
    ]);
    expect(problemsOf(`rate_limit: {unit: day, calendar: true, ${base}}`, { withoutGroups: "memcache" })).toEqual([]);
  });
});
