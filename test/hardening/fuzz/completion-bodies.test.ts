/**
 * A forwarded completion is unambiguous: whichever of two equal names a JSON reader uses, and whether or not it
 * compares names by case, it sees the prescribed model, and a stream requests its usage.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { aiRequestNames, prepareAiRequest } from "../../../proxy/src/llm/ai-request.ts";
import { readJson } from "../../../proxy/src/llm/request-json.ts";
import { mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";

const chat = "/v1/chat/completions";
const model = "gpt-cheap";

type Members = readonly (readonly [string, unknown])[];

/**
 * The members of an object of JSON text in their order, duplicates included. Each value is parsed by JSON.parse, which
 * finds its end by rejecting every longer text.
 */
function membersOf(text: string): Members {
  const members: (readonly [string, unknown])[] = [];
  // Duplicates survive if every name gets its index.
  let index = 0;
  let depth = 0;
  let renamed = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (char === '"') {
      let end = at + 1;
      while (text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
      const isName = depth === 1 && /^\s*:/.test(text.slice(end + 1));
      renamed += isName ? `"${index++}:${text.slice(at + 1, end)}"` : text.slice(at, end + 1);
      at = end;
      continue;
    }
    if (char === "{" || char === "[") depth++;
    if (char === "}" || char === "]") depth--;
    renamed += char;
  }
  for (const [name, value] of Object.entries(JSON.parse(renamed) as object)) {
    members.push([name.slice(name.indexOf(":") + 1), value]);
  }
  return members;
}

/** By the comparison of names, and by which of two equal ones is used. */
const readers = [false, true].flatMap((foldsCase) =>
  (["first", "last"] as const).map((taken) => (members: Members, name: string): unknown => {
    const found = members.filter(([other]) => (foldsCase ? other.toLowerCase() === name : other === name));
    return (taken === "first" ? found[0] : found.at(-1))?.[1];
  }),
);

const values = ["true", "false", "null", "1", "0", '"x"', '""', "[]", "{}", '{"include_usage":false}', "[0]"];
const names = [
  "stream",
  "Stream",
  "str\\u0065am",
  "model",
  "MODEL",
  "m\\u006fdel",
  "stream_options",
  "stream_option\\u0073",
  "Stream_Options",
  "messages",
  'a\\"b',
];
const member = fc.tuple(fc.constantFrom(...names), fc.constantFrom(...values), fc.constantFrom("", " ", "\n"));
const object = fc
  .array(member, { maxLength: 6 })
  .map((members) => `{${members.map(([name, value, space]) => `${space}"${name}"${space}:${value}`).join(",")}}`);

fuzz("completion-bodies", {
  arbitrary: fc.oneof(
    object,
    mutated(
      ['{"model":"gpt-dear","stream":true,"stream_options":{"include_usage":false},"messages":[{"content":"x"}]}'],
      ['"', "\\", ",", ":", "{", "}", "[", "]", '"stream":true', '"model":"m"', "\u0000", "\\u0000", "//", "'"],
    ),
  ),
  quickRuns: 300,
  check(body) {
    const bytes = Buffer.from(body, "latin1");
    const prepared = prepareAiRequest(
      { model, rejectsDeferred: true, inspectsBody: true },
      chat,
      readJson(bytes, aiRequestNames),
    );
    if (typeof prepared === "string") return;
    const sent = prepared.body.toString().replace(/^\ufeff/, "");
    const members = membersOf(sent);
    for (const read of readers) {
      expect(read(members, "model")).toBe(model);
      if (Boolean(read(members, "stream"))) {
        expect(read(members, "stream_options")).toMatchObject({ include_usage: true });
      }
    }
  },
});
