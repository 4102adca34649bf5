import { cpuMsOf } from "@gatewayproxy/runtime/testing/cpu-time";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { deferringEndpoints, isDeferringField, mayDeferWork, takesDeferringMembers } from "./deferred-work.ts";

const examples = deferringEndpoints.flatMap((endpoint) => endpoint.examples);

describe("mayDeferWork", () => {
  test.each(deferringEndpoints)("recognizes the examples of $source", (endpoint) => {
    expect(endpoint.examples.filter((path) => !mayDeferWork(path))).toEqual([]);
  });

  test("recognizes each endpoint in all spellings", () => {
    fc.assert(fc.property(fc.constantFrom(...examples).chain(spellingsOf), (path) => mayDeferWork(path)));
  });

  test.each([
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/responses/compact",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/moderations",
    "/v1/files",
    "/v1/threads",
    "/v1/threads/t/messages",
    "/v1/conversations",
    "/v1/conversations/c/items",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/audio/transcriptions",
    "/v1/audio/speech",
    "/v1/fim/completions",
    "/v1/ocr",
    "/v2/chat",
    "/v1beta/interactions",
    "/v1beta/models/gemini-x:generateContent",
    "/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
    "/v1beta/models/gemini-x:embedContent",
    "/v1beta/models/gemini-x:batchEmbedContents",
    "/v1beta/tunedModels/mine:generateContent",
    "/v1/projects/p/locations/l/publishers/google/models/m:predict",
    "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict",
    "/model/anthropic.claude/invoke",
    "/model/anthropic.claude/converse-stream",
    "/openai/deployments/batch-chat/chat/completions",
    "/predictions/my-model",
    "/api/generate",
    "/api/chat",
    "/ai/run/@cf/meta/llama",
    "/",
  ])("not %s", (path) => {
    expect(mayDeferWork(path)).toBe(false);
  });

  test("takes time linear in the length of the path", () => {
    for (const unit of ["/jobs-", ":a", "/tasks.", "-async-", "/a-async.", "/../", "/tasks/x"]) {
      const path = `/${unit.repeat(Math.ceil(60_000 / unit.length))}x`;
      const cpuMs = cpuMsOf(() => mayDeferWork(path));
      // Quadratic work on 60 KB would take seconds.
      expect([unit, cpuMs < 500]).toEqual([unit, true]);
    }
  });
});

/** Spellings of a path that some server accepts. */
function spellingsOf(example: string): fc.Arbitrary<string> {
  const [pathname = "", query] = example.split("?");
  const char = fc.record({ layers: fc.integer({ min: 0, max: 3 }), isOther: fc.boolean() });
  const tail = fc.constantFrom(
    "",
    "/",
    "//",
    ";x=y",
    "%3Bx",
    "/;x",
    "/.",
    "%2F",
    "%00",
    "%20",
    ".json",
    "/x/..",
    "%5C",
  );
  const slash = fc.constantFrom("/", "//", "\\", "%2F", "%5c", ";a=b/", "/./", "/x/../");
  const length = pathname.length;
  return fc
    .tuple(
      fc.array(char, { minLength: length, maxLength: length }),
      fc.array(slash, { minLength: length, maxLength: length }),
      tail,
    )
    .map(([chars, slashes, end]) => {
      const spelled = Array.from(pathname, (letter, at) => {
        if (letter === "/") return slashes[at] ?? letter;
        const { layers = 0, isOther = false } = chars[at] ?? {};
        return escaped(isOther ? otherCase(letter) : letter, layers);
      });
      return `${spelled.join("")}${end}${query === undefined ? "" : `?${query}`}`;
    });
}

function otherCase(letter: string): string {
  return letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase();
}

function escaped(letter: string, layers: number): string {
  return layers === 0 ? letter : `%${"25".repeat(layers - 1)}${letter.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

test.each([
  ["/v1/responses", true],
  ["/v1/RESP%256Fnses/", true],
  ["/v1/chat/completions", true],
  ["/v1beta/interactions", true],
  ["/%25252525252F", true],
  ["/v1/images/generations", false],
  ["/v1/audio/transcriptions?x=responses", false],
])("takesDeferringMembers(%s): %s", (path, expected) => {
  expect(takesDeferringMembers(path)).toBe(expected);
});

test.each([
  ["Prefer", "respond-async", true],
  ["prefer", "wait=5, Respond-Async", true],
  ["prefer", "wait", false],
  ["X-DashScope-Async", "enable", true],
  ["x-dashscope-async", "disable", false],
  ["x-other", "respond-async", false],
])("isDeferringField(%s, %s): %s", (name, value, expected) => {
  expect(isDeferringField(name, value)).toBe(expected);
});
