import { cpuMsOf } from "@gatewayproxy/runtime/testing/cpu-time";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chatChunk, chatUsageChunk, done, fragments } from "./testing/responses.ts";
import { maxBufferedBytes, type UsageEdit, UsageEventFilter } from "./usage-event-filter.ts";

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

/** A stream whose usage was requested, and the same stream otherwise. */
function streams(contents: readonly string[]): { readonly withUsage: string; readonly withoutUsage: string } {
  const withUsage = contents.map((content) => chatChunk(content, { usage: null, obfuscation: "x9" }));
  const withoutUsage = contents.map((content) => chatChunk(content, { obfuscation: "x9" }));
  return { withUsage: withUsage.join("") + chatUsageChunk(usage) + done, withoutUsage: withoutUsage.join("") + done };
}

describe("UsageEventFilter with Hide", () => {
  const { withUsage, withoutUsage } = streams(["", "Grüße", ' {"usage":null} data: ,"usage":null', "🙂"]);

  test.each([
    ["LF", (stream: string) => stream],
    ["CRLF", (stream: string) => stream.replaceAll("\n", "\r\n")],
    ["CR", (stream: string) => stream.replaceAll("\n", "\r")],
  ])("restores the stream without the request for usage, cut in two at each byte, with %s", (_name, ends) => {
    const bytes = Buffer.from(ends(withUsage));
    for (let at = 0; at <= bytes.length; at++) {
      expect(filtered(bytes.subarray(0, at), bytes.subarray(at))).toBe(ends(withoutUsage));
    }
  });

  test("restores the stream without the request for usage, for any texts and chunks", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "binary" }), { maxLength: 6 }), sizes, (contents, chunkSizes) => {
        const stream = streams(contents);
        const bytes = Buffer.from(stream.withUsage);
        const chunks: Buffer[] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = chunkSizes[i % chunkSizes.length] ?? 1;
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        expect(filtered(...chunks)).toBe(Buffer.from(stream.withoutUsage).toString());
      }),
    );
  });

  test("gives the same output for any chunks of an almost valid stream", () => {
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
      "the usage event with white space",
      'data: {"choices": [ ], "usage": {"total_tokens": 1}}\n\ndata: x\n\n',
      "data: x\n\n",
    ],
    ["the usage event without a line end", 'data: x\n\ndata: {"choices":[],"usage":{}}', "data: x\n\n"],
    ["only the data of a usage event with other fields", 'id: 1\ndata: {"choices":[],"usage":{}}\n\n', "id: 1\n\n"],
  ])("removes %s", (_name, stream, expected) => {
    expect(filtered(stream)).toBe(expected);
    expect(filtered(...Array.from(stream))).toBe(expected);
  });

  test.each([
    ["usage beside choices", chatChunk("end", { usage })],
    ["empty choices without a usage", 'data: {"choices":[],"prompt_filter_results":[]}\n\n'],
    ["a nested usage", 'data: {"choices":[{"usage":null}],"x":{"usage":null}}\n\n'],
    ["a usage outside the data", ': {"a":1,"usage":null}\n\nid: {"choices":[],"usage":{}}\n\n'],
    ["a usage with a value of another kind", 'data: {"choices":[],"usage":7}\n\n'],
    ["data that is not a complete JSON object", 'data: {"choices":[],"usage":{}\ndata: }\n\n'],
    ["an error event", 'event: error\ndata: {"error":{"message":"no \\"usage\\""}}\n\n'],
  ])("keeps %s", (_name, stream) => {
    expect(filtered(stream)).toBe(stream);
    expect(filtered(...Array.from(stream))).toBe(stream);
  });

  test("passes whole lines immediately, and without a copy if nothing is removed", () => {
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

  test("passes a line above the bound unchanged, and filters the following ones", () => {
    const long = chatChunk("x".repeat(2 * maxBufferedBytes), { usage: null });
    const filter = new UsageEventFilter("Hide");
    const bytes = Buffer.from(long);
    expect(filter.push(bytes.subarray(0, maxBufferedBytes + 1)).length).toBe(maxBufferedBytes + 1);
    expect(filter.push(bytes.subarray(maxBufferedBytes + 1, -10)).length).toBe(bytes.length - maxBufferedBytes - 11);
    expect(filter.push(Buffer.concat([bytes.subarray(-10), Buffer.from(withUsage)])).toString()).toBe(
      long.slice(-10) + withoutUsage,
    );
  });

  test("takes time linear in the stream for lines without a brace", () => {
    const stream = 'data:,"usage":null\n'.repeat(200_000);
    const cpuMs = cpuMsOf(() => expect(filtered(stream)).toBe(stream));
    // About 0.2 s; 10 s if each search runs to the end of the chunk.
    expect(cpuMs).toBeLessThan(4_000);
  });

  test("keeps a member if a brace ends only the next line", () => {
    const stream = 'data:,"usage":null\ndata:}\n';
    expect(filtered(stream)).toBe(stream);
  });
});

describe("UsageEventFilter with Merge", () => {
  const end = (finish: string, usage = ""): string => `data: {"choices":[{"finish_reason":${finish}}]${usage}}\n\n`;
  const usageText = ',"usage":{"total_tokens":9}';
  const usageEvent = `data: {"choices":[]${usageText}}\n\n`;
  const extra = `data: {"choices":[{"index":0,"delta":{},"finish_reason":null}]${usageText}}\n\n`;

  test.each([
    ["the last chunk with a choice", end("null") + end('"stop"') + usageEvent, end("null") + end('"stop"', usageText)],
    ["a chunk whose usage is null", end('"stop"', ',"usage":null') + usageEvent, end('"stop"', usageText)],
    [
      "the last of two choices",
      end('"stop"') + end('"length"') + usageEvent,
      end('"stop"') + end('"length"', usageText),
    ],
    [
      "a chunk with a comment after it",
      `${end('"stop"')}: ping\n\n${usageEvent}`,
      `${end('"stop"', usageText)}: ping\n\n`,
    ],
    [
      "a chunk before an event with an id",
      `${end('"stop"')}id: 1\n${usageEvent}`,
      `${end('"stop"', usageText)}id: 1\n\n`,
    ],
    ["a chunk with white space", end(' "tool_calls" ') + usageEvent, end(' "tool_calls" ', usageText)],
    ["a choice of its own if none waits", end("null") + usageEvent, end("null") + extra],
    [
      "a choice of its own of a text completion",
      `data: {"object":"text_completion","choices":[]${usageText}}\n\n`,
      `data: {"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":null}]${usageText}}\n\n`,
    ],
    ["a choice of its own if the choices are null", `data: {"choices":null${usageText}}\n\n`, extra],
    [
      "a choice of its own behind a chunk that has passed",
      `${end('"stop"')}data: {"choices":[],"x":1}\n\n${usageEvent}`,
      `${end('"stop"')}data: {"choices":[],"x":1}\n\n${extra}`,
    ],
    ["the chunk that has it already", end('"stop"', usageText) + usageEvent, end('"stop"', usageText)],
    ["one chunk if the provider repeats it", end('"stop"') + usageEvent + usageEvent, end('"stop"', usageText)],
    ["no chunk if there is none", end('"stop"') + done, end('"stop"') + done],
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

  test("lets only a chunk with a finish reason wait, and only for the next event", () => {
    const filter = new UsageEventFilter("Merge");
    const pass = (text: string): string => filter.push(Buffer.from(text)).toString();
    expect(pass(chatChunk("a", { usage: null }))).toBe(chatChunk("a"));
    expect(filter.pending).toBeUndefined();
    expect(pass(end('"stop"'))).toBe("");
    expect(filter.pending).toBeDefined();
    expect(pass(": ping\n\n")).toBe("");
    expect(pass(chatChunk("b"))).toBe(`${end('"stop"')}: ping\n\n${chatChunk("b")}`);
    expect(filter.pending).toBeUndefined();
  });

  test("releases a waiting chunk, and gives a later usage a choice of its own", () => {
    const filter = new UsageEventFilter("Merge");
    filter.push(Buffer.from(end('"stop"').replaceAll("\n", "\r\n")));
    expect(filter.release().toString()).toBe(end('"stop"').replaceAll("\n", "\r\n"));
    expect(filter.release()).toHaveLength(0);
    expect(filter.push(Buffer.from(usageEvent)).toString()).toBe(extra);
  });

  test("does not let a line above the bound wait", () => {
    const long = `data: {"x":"${"x".repeat(maxBufferedBytes)}","choices":[{"finish_reason":"stop"}]}\n\n`;
    expect(merged(long + usageEvent)).toBe(long + extra);
    expect(merged(...Array.from(long + usageEvent))).toBe(long + extra);
  });
});
