import { describe, expect, test } from "vitest";
import { parseConfigFile } from "./config-file.ts";
import { type ConfigProblem, sortProblems, renderConfigProblem } from "./config-problem.ts";
import { buildDomain } from "./descriptor-tree.ts";

/** Everything that is wrong with a file, shape and sense. */
function problemsOf(text: string): readonly ConfigProblem[] {
  const { spec, problems } = parseConfigFile("config.limits.yaml", "limits.yaml", text);
  return sortProblems([...problems, ...(spec === undefined ? [] : buildDomain(spec).problems)]);
}

/** `line:column message`, one per problem. */
function placesOf(text: string): readonly string[] {
  return problemsOf(text).map(({ location, message }) => `${location?.line}:${location?.column} ${message}`);
}

const wrong: readonly { readonly problem: string; readonly text: string; readonly problems: readonly string[] }[] = [
  { problem: "an empty domain", text: "descriptors: []\n", problems: ["1:1 config file cannot have empty domain"] },
  { problem: "an empty file", text: "", problems: ["1:1 config file cannot have empty domain"] },
  {
    problem: "a descriptor without a key",
    text: "domain: d\ndescriptors:\n  - value: v\n",
    problems: ["3:5 descriptor has empty key"],
  },
  {
    problem: "a descriptor that stands twice",
    text: "domain: d\ndescriptors:\n  - {key: a, value: b}\n  - {key: a, value: b}\n",
    problems: ["4:5 duplicate descriptor composite key 'd.a_b'"],
  },
  {
    problem: "a nested descriptor that stands twice",
    text: "domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - {key: b}\n      - {key: b}\n",
    problems: ["6:9 duplicate descriptor composite key 'd.a.b'"],
  },
  {
    problem: "an unknown unit",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: foo, requests_per_unit: 5}\n",
    problems: ["4:24 invalid rate limit unit 'foo'"],
  },
  {
    problem: "no unit",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {requests_per_unit: 5}\n",
    problems: ["4:17 invalid rate limit unit ''"],
  },
  {
    problem: "the unit named unknown",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: unknown}\n",
    problems: ["4:24 invalid rate limit unit 'unknown'"],
  },
  {
    problem: "a multiplier of nothing",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: hour, unit_multiplier: 0}\n",
    problems: ["4:17 invalid rate limit unit multiplier '0'"],
  },
  {
    problem: "a window too long for a response",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: year, unit_multiplier: 10008}\n",
    problems: ["4:17 invalid rate limit unit multiplier '10008'"],
  },
  {
    problem: "a limit that replaces itself",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {name: n, unit: day, replaces: [{name: n}]}\n",
    problems: ["4:49 replaces should not contain name of same descriptor"],
  },
  {
    problem: "a limit that replaces nothing",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {name: n, unit: day, replaces: [{name: }]}\n",
    problems: ["4:49 should not have an empty replaces entry"],
  },
  {
    problem: "a misspelled key of a descriptor",
    text: "domain: d\ndescriptors:\n  - key: a\n    ratelimit: {unit: day}\n",
    problems: ["4:5 config error, unknown key 'ratelimit'"],
  },
  {
    problem: "a misspelled key of a limit",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requestsperunit: 5}\n",
    problems: ["4:29 config error, unknown key 'requestsperunit'"],
  },
  {
    problem: "a key that is a number",
    text: "0.25: d\ndescriptors:\n  - key: a\n",
    problems: ["1:1 config error, key is not of type string: 0.25"],
  },
  {
    problem: "a list of texts",
    text: "domain: d\ndescriptors:\n  - a\n  - b\n",
    problems: [
      "3:5 config error, yaml file contains list of type other than map: a",
      "4:5 config error, yaml file contains list of type other than map: b",
    ],
  },
  {
    problem: "an unlimited limit with a unit",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unlimited: true, unit: day}\n",
    problems: ["4:41 should not specify rate limit unit when unlimited"],
  },
  {
    problem: "a fraction",
    text: "domain: d\ndescriptors:\n  - key: a\n    value: 1.5\n",
    problems: ["4:12 error checking config"],
  },
  {
    problem: "a shared threshold without a wildcard",
    text: "domain: d\ndescriptors:\n  - {key: k, value: v, share_threshold: true}\n",
    problems: ["3:5 share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'"],
  },
  {
    problem: "metadata that no response can contain",
    text: "domain: d\ndescriptors:\n  - key: a\n    metadata: {weight: .inf}\n",
    problems: ["4:24 error parsing metadata: .inf is not a finite number"],
  },
  {
    problem: "a count that is no number",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: many}\n",
    problems: [
      "4:48 error loading config file: requests_per_unit must be a whole number from 0 to 4294967295, found the text 'many'",
    ],
  },
  {
    problem: "a count beyond 32 bits",
    text: "domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 4294967296}\n",
    problems: [
      "4:48 error loading config file: requests_per_unit must be a whole number from 0 to 4294967295, found '4294967296'",
    ],
  },
  {
    problem: "a flag that is a text",
    text: "domain: d\ndescriptors:\n  - key: a\n    shadow_mode: maybe\n",
    problems: ["4:18 error loading config file: shadow_mode must be true or false, found the text 'maybe'"],
  },
  {
    problem: "a text where a list belongs",
    text: "domain: d\ndescriptors: many\n",
    problems: ["2:14 error loading config file: descriptors must be a list, found the text 'many'"],
  },
  {
    problem: "a document that is no mapping",
    text: "# Limits\nplain words\n",
    problems: ["2:1 error loading config file: found a scalar, expected a mapping with domain and descriptors"],
  },
  {
    problem: "an alias that never ends",
    text: "domain: d\ndescriptors: &all\n  - key: a\n    descriptors: *all\n",
    problems: ["4:18 error loading config file: alias *all does not refer to a value"],
  },
];

describe("case 63: a configuration file is rejected with the reference's words and the place", () => {
  test.each(wrong)("for $fault", ({ text, problems }) => {
    expect(placesOf(text)).toEqual(problems);
  });

  test("for text that is no YAML", () => {
    const [problem] = problemsOf("domain: [d\n");
    expect(problem?.message).toMatch(/^error loading config file: /);
    expect(problem?.location).toMatchObject({ file: "limits.yaml" });
  });

  test("for aliases that multiply without end", () => {
    const levels = ["a: &a0 [{key: x}, {key: x}]"];
    for (let i = 1; i < 30; i++) {
      levels.push(
        `a${i}: &a${i} [${Array(10)
          .fill(`*a${i - 1}`)
          .join(", ")}]`,
      );
    }
    const [problem] = problemsOf(`${levels.join("\n")}\n`);
    expect(problem?.message).toMatch(/more than 200000 values/);
  });

  test("with all that is wrong at once, in the order of the file", () => {
    const text = [
      "domain: d",
      "descriptors:",
      "  - value: v",
      "  - key: a",
      "    rate_limit: {unit: minutely}",
      "  - key: a",
      "",
    ].join("\n");
    expect(placesOf(text)).toEqual([
      "3:5 descriptor has empty key",
      "5:24 invalid rate limit unit 'minutely'",
      "6:5 duplicate descriptor composite key 'd.a'",
    ]);
  });

  test("with all that is wrong at once, of whatever kind", () => {
    const text = [
      "domain: d",
      "descriptors:",
      "  - key: a",
      "    rate_limitz: {unit: day}",
      "  - key: b",
      "    rate_limit: {unit: days, requests_per_unit: -5}",
      "  - key: c",
      "    rate_limit: 10",
      "  - key: d",
      "    rate_limit: {unit: day, requests_per_unit: 1.5}",
      "",
    ].join("\n");
    expect(placesOf(text)).toEqual([
      "4:5 config error, unknown key 'rate_limitz'",
      "6:24 invalid rate limit unit 'days'",
      "6:49 error loading config file: requests_per_unit must be a whole number from 0 to 4294967295, found '-5'",
      "8:17 error loading config file: rate_limit must be a mapping with unit and requests_per_unit, found '10'",
      "10:48 error checking config",
    ]);
  });

  test.each([
    ["requests_per_unit", "a whole number from 0 to 4294967295", "'10'"],
    ["unlimited", "true or false", "'yes'"],
  ])("telling a text that only looks like what %s takes", (key, accepted, found) => {
    const text = `domain: d\ndescriptors:\n  - key: a\n    rate_limit: {${key}: ${found}, unit: day}\n`;
    expect(placesOf(text)).toEqual([
      `4:${20 + key.length} error loading config file: ${key} must be ${accepted}, found the text ${found}`,
    ]);
  });

  test.each([
    ["descriptor", "descriptors"],
    ["rateLimits", "rate_limits"],
    ["rate_limitss", "rate_limit"],
    ["requestsPerUnit", "requests_per_unit"],
    ["request_per_unit", "requests_per_unit"],
  ])("%s brings %s to mind", (key, meant) => {
    const [problem] = problemsOf(`domain: d\n${key}: 5\n`);
    expect(problem?.hint).toBe(`did you mean '${meant}'?`);
  });

  test("on one line that names place, file, fault and what is accepted", () => {
    const text = "domain: d\ndescriptors:\n  - key: a\n    rate-limit: {unit: day}\n";
    const [problem] = problemsOf(text);
    expect(parseConfigFile("config.limits.yaml", "limits.yaml", text).warnings).toEqual([]);
    expect(problem === undefined ? "" : renderConfigProblem(problem)).toBe(
      "limits.yaml:4:5 config.limits.yaml: config error, unknown key 'rate-limit' (did you mean 'rate_limit'?)",
    );
  });
});

describe("a configuration file is read as the reference reads it", () => {
  function specOf(text: string) {
    const { spec, problems, warnings } = parseConfigFile("limits.yaml", "limits.yaml", text);
    expect(problems).toEqual([]);
    return { spec, warnings };
  }

  test.each([
    ["a number", "42", "42"],
    ["a number in another base", "0x10", "0x10"],
    ["a boolean", "yes", "yes"],
    ["nothing", "", ""],
    ["a time of day", "12:30", "12:30"],
    ["a quoted fraction", "'1.5'", "1.5"],
    ["a date", "2026-11-21", "2026-11-21"],
  ])("the text of a value that looks like %s keeps its spelling", (_, yaml, value) => {
    const { spec } = specOf(`domain: d\ndescriptors:\n  - key: a\n    value: ${yaml}\n`);
    expect(spec?.descriptors[0]?.value).toBe(value);
  });

  test.each([
    ["10", 10],
    ["010", 8],
    ["0x10", 16],
    ["0b11", 3],
    ["1_000", 1000],
    ["0", 0],
    ["4294967295", 4294967295],
  ])("requests_per_unit: %s counts %d", (yaml, requests) => {
    const { spec } = specOf(
      `domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: ${yaml}}\n`,
    );
    expect(spec?.descriptors[0]?.rateLimit?.requestsPerUnit).toBe(requests);
  });

  test.each(["{unit: day}", "{unit: day, requests_per_unit: null}"])(
    "%s denies every call, with a warning unless it is an explicit 0",
    (limit) => {
      const { spec, warnings } = specOf(`domain: d\ndescriptors:\n  - key: a\n    rate_limit: ${limit}\n`);
      expect(spec?.descriptors[0]?.rateLimit?.requestsPerUnit).toBe(0);
      expect(warnings).toMatchObject([
        { message: "requests_per_unit is missing, so every call is denied", location: { line: 4, column: 17 } },
      ]);
    },
  );

  test("flags take every YAML 1.1 spelling of true", () => {
    const { spec } = specOf(
      "domain: d\ndescriptors:\n  - {key: a, shadow_mode: yes, quota_mode: On, detailed_metric: off}\n",
    );
    expect(spec?.descriptors[0]).toMatchObject({ shadowMode: true, quotaMode: true, detailedMetric: false });
  });

  test("anchors, aliases and merge keys are resolved", () => {
    const { spec } = specOf(
      [
        "domain: d",
        "descriptors:",
        "  - key: a",
        "    rate_limit: &limit {unit: hour, requests_per_unit: 3}",
        "  - key: b",
        "    rate_limit: *limit",
        "  - key: c",
        "    rate_limit:",
        "      <<: *limit",
        "      requests_per_unit: 4",
        "",
      ].join("\n"),
    );
    const limits = spec?.descriptors.map(({ rateLimit }) => [rateLimit?.unit, rateLimit?.requestsPerUnit]);
    expect(limits).toEqual([
      ["hour", 3],
      ["hour", 3],
      ["hour", 4],
    ]);
  });

  test("metadata is free and keeps its types", () => {
    const { spec } = specOf(
      "domain: d\ndescriptors:\n  - key: a\n    metadata: {any key: [1, 2.5, yes, ~, {deep: text}], 7: seven}\n",
    );
    expect(spec?.descriptors[0]?.metadata).toEqual({ "any key": [1, 2.5, true, null, { deep: "text" }], 7: "seven" });
  });

  test("a known key in the wrong place, a key twice and a second document are reported, not rejected", () => {
    const { warnings } = specOf("domain: d\nunit: day\ndomain: e\ndescriptors: []\n---\ndomain: f\n");
    expect(warnings.map(({ message, location }) => `${location?.line} ${message}`)).toEqual([
      "5 only the first document of a file is read",
      "3 key 'domain' is duplicate, the last one counts",
      "2 key 'unit' means nothing in a file and is ignored",
    ]);
  });
});
