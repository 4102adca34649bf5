import { describe, expect, test } from "vitest";
import type { RateLimitResponse } from "../../model/rate-limit.ts";
import { parseRateLimitJson as parseBytes, renderRateLimitJson } from "./rate-limit-json.ts";

const parseRateLimitJson = (text: string, bounds?: Parameters<typeof parseBytes>[1]) =>
  parseBytes(Buffer.from(text), bounds);

describe("parseRateLimitJson", () => {
  const full = {
    domain: "rl",
    hitsAddend: 2,
    descriptors: [
      {
        entries: [
          { key: "a", value: "1" },
          { key: "b", value: "" },
        ],
        limit: { requestsPerUnit: 5, unit: "HOUR", unitMultiplier: 2 },
        hitsAddend: 3,
        isNegativeHits: true,
      },
    ],
  };

  test("reads every field, in camelCase", () => {
    expect(parseRateLimitJson(JSON.stringify(full))).toEqual({ ok: true, value: full });
  });

  test("reads every field, as the .proto file writes it", () => {
    const text = JSON.stringify(full).replace(/"[a-z]+[A-Za-z]*":/g, (name) =>
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    );

    expect(text).toContain("requests_per_unit");
    expect(parseRateLimitJson(text)).toEqual({ ok: true, value: full });
  });

  test("rejects what is not UTF-8", () => {
    const bytes = Buffer.concat([Buffer.from('{"domain": "caf'), Buffer.from([0xe9]), Buffer.from('"}')]);

    expect(parseBytes(bytes)).toEqual({ ok: false, problems: [{ message: "not JSON: the text is not UTF-8" }] });
  });

  test("takes the same field in different objects, and braces, quotes and colons in texts", () => {
    const text =
      '{"domain": "{\\"domain\\": [", "descriptors": [{"entries": [{"key": "\\\\"}, {"key": "key\\":"}]}, {"entries": []}]}';

    expect(parseRateLimitJson(text)).toMatchObject({
      ok: true,
      value: { domain: '{"domain": [', descriptors: [{ entries: [{ key: "\\" }, { key: 'key":' }] }, { entries: [] }] },
    });
  });

  test("takes whole numbers however they are written, and the number of a week", () => {
    const text =
      '{"hitsAddend": "2e0", "descriptors": [{"hitsAddend": "3.0", "limit": {"unit": 7, "requestsPerUnit": 1e1}}]}';

    expect(parseRateLimitJson(text)).toMatchObject({
      ok: true,
      value: { hitsAddend: 2, descriptors: [{ hitsAddend: 3, limit: { unit: "WEEK", requestsPerUnit: 10 } }] },
    });
  });

  test("takes numbers as text, numbers of the unit, and null for absent", () => {
    const text =
      '{"domain": null, "hitsAddend": "7", "descriptors": [{"entries": null, "hitsAddend": "0", "limit": {"unit": 2}}]}';

    expect(parseRateLimitJson(text)).toEqual({
      ok: true,
      value: {
        domain: "",
        hitsAddend: 7,
        descriptors: [{ entries: [], hitsAddend: 0, limit: { requestsPerUnit: 0, unit: "MINUTE" } }],
      },
    });
  });

  test.each([
    ["", "not JSON: Unexpected end of JSON input", undefined],
    ["}", /^not JSON: Unexpected token/, undefined],
    ["[]", "a list is not an object", "body"],
    ['{"domian": "a"}', "unknown field; accepted fields are domain, descriptors, hitsAddend", "domian"],
    ['{"domain": 1}', "1 is not a string", "domain"],
    ['{"hitsAddend": -1}', "-1 is not a whole number from 0 to 2^32-1", "hitsAddend"],
    ['{"hitsAddend": 1.5}', "1.5 is not a whole number from 0 to 2^32-1", "hitsAddend"],
    ['{"hitsAddend": 4294967296}', "4294967296 is not a whole number from 0 to 2^32-1", "hitsAddend"],
    ['{"hitsAddend": 1, "hits_addend": 1}', "the field is duplicate", "hits_addend"],
    ['{"domain": "d", "domain": "e"}', "the field is duplicate", "domain"],
    ['{"domain": "d", "dom\\u0061in": "e"}', "the field is duplicate", "domain"],
    ['{"descriptors": [{"entries": [{"key": "a", "value": "b", "key":"c"}]}]}', "the field is duplicate", "key"],
    ['{"domain": "\\ud800"}', "the text holds half of a surrogate pair", "domain"],
    ['{"hitsAddend": "007"}', '"007" is not a whole number from 0 to 2^32-1', "hitsAddend"],
    ['{"hitsAddend": "1e400"}', '"1e400" is not a whole number from 0 to 2^32-1', "hitsAddend"],
    [
      '{"descriptors": [{"limit": {"unit": "WEEK"}}]}',
      '"WEEK" is no unit, accepted are SECOND, MINUTE, HOUR, DAY, MONTH, YEAR',
      "descriptors[0].limit.unit",
    ],
    ['{"descriptors": {}}', "an object is not a list", "descriptors"],
    [
      '{"descriptors": [{"entries": [{}, {"val": ""}]}]}',
      "unknown field; accepted fields are key, value",
      "descriptors[0].entries[1].val",
    ],
    [
      '{"descriptors": [{"limit": {"unit": "Minutes"}}]}',
      '"Minutes" is no unit, accepted are SECOND, MINUTE, HOUR, DAY, MONTH, YEAR',
      "descriptors[0].limit.unit",
    ],
    ['{"descriptors": [{"isNegativeHits": 1}]}', "1 is not true or false", "descriptors[0].isNegativeHits"],
    [
      '{"descriptors": [{"hitsAddend": {"value": 1}}]}',
      /is not a whole number from 0 to 2\^64-1/,
      "descriptors[0].hitsAddend",
    ],
    [
      '{"descriptors": [{"hitsAddend": "36893488147419103232"}]}',
      '"36893488147419103232" is not a whole number from 0 to 2^64-1',
      "descriptors[0].hitsAddend",
    ],
  ])("rejects %s and says why and where", (text, message, path) => {
    const result = parseRateLimitJson(text);

    const [problem, ...others] = result.ok ? [] : result.problems;
    expect(problem?.message).toMatch(message);
    expect(problem?.path).toBe(path);
    expect(others).toEqual([]);
  });

  test("reports all problems", () => {
    const result = parseRateLimitJson('{"domain": 1, "descriptors": [1, {"entries": 2}], "more": 3}');

    expect(result.ok ? [] : result.problems.map(({ path }) => path)).toEqual([
      "more",
      "domain",
      "descriptors[0]",
      "descriptors[1].entries",
    ]);
  });
});

describe("renderRateLimitJson", () => {
  test("leaves out what is at its default and writes durations in seconds", () => {
    const response: RateLimitResponse = {
      overallCode: "OVER_LIMIT",
      statuses: [
        {
          code: "OVER_LIMIT",
          currentLimit: { requestsPerUnit: 10, unit: "MINUTE", name: "per-ip" },
          limitRemaining: 0,
          durationUntilResetSeconds: 58,
        },
        {
          code: "OK",
          currentLimit: { requestsPerUnit: 0, unit: "DAY", unitMultiplier: 2 },
          limitRemaining: 4_294_967_295,
        },
      ],
      responseHeaders: [{ key: "x-ratelimit-limit", value: "10" }],
      rawBody: Buffer.from("full"),
      dynamicMetadata: { a: [null] },
    };

    expect(JSON.parse(renderRateLimitJson(response))).toEqual({
      overallCode: "OVER_LIMIT",
      statuses: [
        {
          code: "OVER_LIMIT",
          currentLimit: { requestsPerUnit: 10, unit: "MINUTE", name: "per-ip" },
          durationUntilReset: "58s",
        },
        { code: "OK", currentLimit: { unit: "DAY", unitMultiplier: 2 }, limitRemaining: 4_294_967_295 },
      ],
      responseHeadersToAdd: [{ key: "x-ratelimit-limit", value: "10" }],
      rawBody: "ZnVsbA==",
      dynamicMetadata: { a: [null] },
    });
  });

  test("writes a response without code as an empty object", () => {
    expect(renderRateLimitJson({ overallCode: "UNKNOWN", statuses: [], responseHeaders: [] })).toBe("{}");
  });
});
