import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chatChunk, chatUsageChunk, done, fragments } from "./testing/responses.ts";
import { maxHeldBytes, type UsageEdit, UsageEventFilter } from "./usage-event-filter.ts";

const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };

function filtered(...chunks: readonly (string | Buffer)[]): string {
  return filteredBy("Hide", ...chunks);
}

function merged(...chunks: readonly (string | Buffer)[]): string {
  return filteredBy("Merge", ...chunks);
}

function filteredBy(mode: UsageEdit, ...chunks: readonly (string | Buffer)[]): string {
  const filter = new UsageEventFilter(mode);
  const passed = chunks.map((chunk) => filter.push(Buffer.from(chunk)));
  return Buffer.concat([...passed, filter.end()]).toString();
}

/** A stream as it comes when its usage was asked for, and as it would have come otherwise. */
function streams(contents: readonly string[]): { readonly asked: string; readonly unasked: string } {
  const asked = contents.map((content) => chatChunk(content, { usage: null, obfuscation: "x9" }));
  const unasked = contents.map((content) => chatChunk(content, { obfuscation: "x9" }));
  return { asked: asked.join("") + chatUsageChunk(usage) + done, unasked: unasked.join("") + done };
}

describe("UsageEventFilter with Hide", () => {
  const { asked, unasked } = streams(["", "Grüße", ' {"usage":null} data: ,"usage":null', "🙂"]);

  test.each([
    ["LF", (stream: string) => stream],
    ["CRLF", (stream: string) => stream.replaceAll("\n", "\r\n")],
    ["CR", (stream: string) => stream.replaceAll("\n", "\r")],
  ])("gives the stream as it was without the question, cut in two at every byte, with %s", (_name, ends) => {
    const bytes = Buffer.from(ends(asked));
    for (let at = 0; at <= bytes.length; at++) {
      expect(filtered(bytes.subarray(0, at), bytes.subarray(at))).toBe(ends(unasked));
    }
  });

  test("gives the stream as it was without the question, for any texts and cuts", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "binary" }), { maxLength: 6 }), sizes, (contents, chunkSizes) => {
        const stream = streams(contents);
        const bytes = Buffer.from(stream.asked);
        const chunks: Buffer[] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = chunkSizes[i % chunkSizes.length] ?? 1;
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        expect(filtered(...chunks)).toBe(Buffer.from(stream.unasked).toString());
      }),
    );
  });

  test("gives the same however the stream is cut, for any near miss of one", () => {
    const text = fc.array(fc.constantFrom(...fragments), { maxLength: 30 }).map((pieces) => pieces.join(""));
    const mode = fc.constantFrom<UsageEdit>("Hide", "Merge");
    fc.assert(
      fc.property(mode, text, fc.nat(200), fc.nat(200), (edit, stream, first, second) => {
        const bytes = Buffer.from(stream);
        const [from, to] = [Math.min(first, second), Math.max(first, second)];
        const whole = filteredBy(edit, bytes);
        expect(filteredBy(edit, bytes.subarray(0, from), bytes.subarray(from, to), bytes.subarray(to))).toBe(whole);
        expect(filteredBy(edit, ...Array.from(bytes, (byte) => Buffer.of(byte)))).toBe(whole);
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    ["a last member", 'data: {"a":1,"usage":null}\n\n', 'data: {"a":1}\n\n'],
    ["a first member", 'data: {"usage":null,"a":1}\n\n', 'data: {"a":1}\n\n'],
    ["an only member", 'data: {"usage":null}\n\n', "data: {}\n\n"],
    [
      "a member of the top level alone",
      'data: {"usage":null,"x":[{"usage":null}]}\n\n',
      'data: {"x":[{"usage":null}]}\n\n',
    ],
    ["a member with white space", 'data: {"a": 1, "usage": null }\n\n', 'data: {"a": 1}\n\n'],
    [
      "the answer with white space",
      'data: {"choices": [ ], "usage": {"total_tokens": 1}}\n\ndata: x\n\n',
      "data: x\n\n",
    ],
    ["the answer without a line end", 'data: x\n\ndata: {"choices":[],"usage":{}}', "data: x\n\n"],
    ["only the data of an answer that has other fields", 'id: 1\ndata: {"choices":[],"usage":{}}\n\n', "id: 1\n\n"],
  ])("cuts %s", (_name, stream, expected) => {
    expect(filtered(stream)).toBe(expected);
    expect(filtered(...Array.from(stream))).toBe(expected);
  });

  test.each([
    ["usage beside choices", chatChunk("end", { usage })],
    ["empty choices whose usage is null but for the null", 'data: {"choices":[],"prompt_filter_results":[]}\n\n'],
    ["a usage deeper in", 'data: {"choices":[{"usage":null}],"x":{"usage":null}}\n\n'],
    ["a usage that is not in the data", ': {"a":1,"usage":null}\n\nid: {"choices":[],"usage":{}}\n\n'],
    ["a usage with a value of another kind", 'data: {"choices":[],"usage":7}\n\n'],
    ["data that is no whole JSON object", 'data: {"choices":[],"usage":{}\ndata: }\n\n'],
    ["an error event", 'event: error\ndata: {"error":{"message":"no \\"usage\\""}}\n\n'],
  ])("leaves %s", (_name, stream) => {
    expect(filtered(stream)).toBe(stream);
    expect(filtered(...Array.from(stream))).toBe(stream);
  });

  test("passes whole lines on at once, without a copy when nothing is cut", () => {
    const filter = new UsageEventFilter("Hide");
    const chunk = Buffer.from(chatChunk("now"));
    const passed = filter.push(chunk);
    expect(passed).toEqual(chunk);
    expect(passed.buffer).toBe(chunk.buffer);
    expect(filter.push(Buffer.from("data: {")).length).toBe(0);
    expect(filter.push(Buffer.from('"a":1}\n')).toString()).toBe('data: {"a":1}\n');
  });

  test("keeps no reference to a chunk", () => {
    const filter = new UsageEventFilter("Hide");
    const chunk = Buffer.from("data: x\ndata:");
    filter.push(chunk);
    chunk.fill(0);
    expect(filter.end().toString()).toBe("data:");
  });

  test("lets a line above its bound pass as it comes, and filters what follows", () => {
    const long = chatChunk("x".repeat(2 * maxHeldBytes), { usage: null });
    const filter = new UsageEventFilter("Hide");
    const bytes = Buffer.from(long);
    expect(filter.push(bytes.subarray(0, maxHeldBytes + 1)).length).toBe(maxHeldBytes + 1);
    expect(filter.push(bytes.subarray(maxHeldBytes + 1, -10)).length).toBe(bytes.length - maxHeldBytes - 11);
    expect(filter.push(Buffer.concat([bytes.subarray(-10), Buffer.from(asked)])).toString()).toBe(
      long.slice(-10) + unasked,
    );
  });

  test("takes time that grows with the stream only, where no line has a brace", () => {
    const stream = 'data:,"usage":null\n'.repeat(200_000);
    const start = performance.now();
    expect(filtered(stream)).toBe(stream);
    // About 0.2 s; 10 s where each line is searched to the end of the chunk.
    expect(performance.now() - start).toBeLessThan(4_000);
  });

  test("passes a member behind whose line a brace ends another", () => {
    const stream = 'data:,"usage":null\ndata:}\n';
    expect(filtered(stream)).toBe(stream);
  });
});

describe("UsageEventFilter with Merge", () => {
  const end = (finish: string, usage = ""): string => `data: {"choices":[{"finish_reason":${finish}}]${usage}}\n\n`;
  const told = ',"usage":{"total_tokens":9}';
  const usageEvent = `data: {"choices":[]${told}}\n\n`;
  const extra = `data: {"choices":[{"index":0,"delta":{},"finish_reason":null}]${told}}\n\n`;

  test.each([
    ["the last chunk with a choice", end("null") + end('"stop"') + usageEvent, end("null") + end('"stop"', told)],
    ["a chunk whose usage is null", end('"stop"', ',"usage":null') + usageEvent, end('"stop"', told)],
    ["the last of two choices", end('"stop"') + end('"length"') + usageEvent, end('"stop"') + end('"length"', told)],
    ["a chunk with a comment behind it", `${end('"stop"')}: ping\n\n${usageEvent}`, `${end('"stop"', told)}: ping\n\n`],
    ["a chunk before an event with an id", `${end('"stop"')}id: 1\n${usageEvent}`, `${end('"stop"', told)}id: 1\n\n`],
    ["a chunk with white space", end(' "tool_calls" ') + usageEvent, end(' "tool_calls" ', told)],
    ["a choice of its own where none waits", end("null") + usageEvent, end("null") + extra],
    [
      "a choice of its own of a text completion",
      `data: {"object":"text_completion","choices":[]${told}}\n\n`,
      `data: {"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":null}]${told}}\n\n`,
    ],
    ["a choice of its own where the choices are null", `data: {"choices":null${told}}\n\n`, extra],
    [
      "a choice of its own behind a chunk that has passed",
      `${end('"stop"')}data: {"choices":[],"x":1}\n\n${usageEvent}`,
      `${end('"stop"')}data: {"choices":[],"x":1}\n\n${extra}`,
    ],
    ["the chunk that has it already", end('"stop"', told) + usageEvent, end('"stop"', told)],
    ["one chunk, though the provider repeats it", end('"stop"') + usageEvent + usageEvent, end('"stop"', told)],
    ["no chunk where there is none", end('"stop"') + done, end('"stop"') + done],
    [
      "no chunk where too much is between them",
      `${end('"stop"')}${": ping\n".repeat(4_000)}\n${usageEvent}`,
      `${end('"stop"')}${": ping\n".repeat(4_000)}\n${extra}`,
    ],
  ])("puts the usage in %s", (_name, stream, expected) => {
    for (const ends of ["\n", "\r\n", "\r"]) {
      const [sent, wanted] = [stream, expected].map((text) => text.replaceAll("\n", ends));
      expect(merged(sent ?? "")).toBe(wanted);
      expect(merged(...Array.from(sent ?? ""))).toBe(wanted);
    }
  });

  test("lets no chunk wait but one with a finish reason, and that no longer than for the next event", () => {
    const filter = new UsageEventFilter("Merge");
    const pass = (text: string): string => filter.push(Buffer.from(text)).toString();
    expect(pass(chatChunk("a", { usage: null }))).toBe(chatChunk("a"));
    expect(filter.waiting).toBeUndefined();
    expect(pass(end('"stop"'))).toBe("");
    expect(filter.waiting).toBeDefined();
    expect(pass(": ping\n\n")).toBe("");
    expect(pass(chatChunk("b"))).toBe(`${end('"stop"')}: ping\n\n${chatChunk("b")}`);
    expect(filter.waiting).toBeUndefined();
  });

  test("gives a chunk that waits away, and a later usage a choice of its own", () => {
    const filter = new UsageEventFilter("Merge");
    filter.push(Buffer.from(end('"stop"').replaceAll("\n", "\r\n")));
    expect(filter.release().toString()).toBe(end('"stop"').replaceAll("\n", "\r\n"));
    expect(filter.release()).toHaveLength(0);
    expect(filter.push(Buffer.from(usageEvent)).toString()).toBe(extra);
  });

  test("does not wait with a line above its bound", () => {
    const long = `data: {"x":"${"x".repeat(maxHeldBytes)}","choices":[{"finish_reason":"stop"}]}\n\n`;
    expect(merged(long + usageEvent)).toBe(long + extra);
    expect(merged(...Array.from(long + usageEvent))).toBe(long + extra);
  });
});
