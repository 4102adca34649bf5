import { cpuMsOf } from "@gatewayproxy/runtime/testing/cpu-time";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import fc from "fast-check";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { describe, expect, test } from "vitest";
import { countPrompt, maxExact, maxRun } from "./count-tokens.ts";
import { encodingOf } from "./encoding.ts";
import { promptTextOf } from "./prompt-text.ts";
import { loadEncoding, tokensOf } from "./serve-tokens.ts";
import { type FromTokenThread, maxCountedBytes, TokenCounter, type ToTokenThread } from "./token-counter.ts";

describe("the encoding of a model", () => {
  test.each([
    ["gpt-5-mini", "o200k_base"],
    ["openai/gpt-4o-2024-08-06", "o200k_base"],
    ["gpt-4.1-nano", "o200k_base"],
    ["o3-mini", "o200k_base"],
    ["GPT-OSS-120B", "o200k_base"],
    ["gpt-4-turbo", "cl100k_base"],
    ["gpt-35-turbo", "cl100k_base"],
    ["text-embedding-3-large", "cl100k_base"],
    ["claude-sonnet-4-5", undefined],
    ["llama-3.1-70b", undefined],
    ["", undefined],
  ])("of %s is %s", (model, encoding) => expect(encodingOf(model)).toBe(encoding));
});

describe("the prompt of a request", () => {
  const url = `data:image/png;base64,${"A".repeat(400)}`;
  test.each<[string, object, { texts: readonly string[]; tokens: number; mediaBytes: number }]>([
    [
      "of chat completions has the texts of its messages",
      {
        model: "m",
        stream: true,
        messages: [
          { role: "system", content: "a" },
          { role: "user", name: "bob", content: [{ type: "text", text: "b" }] },
        ],
      },
      { texts: ["a", "b", "bob", "system", "user"], tokens: 11, mediaBytes: 0 },
    ],
    [
      "counts images by their bytes",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] },
      { texts: ["user"], tokens: 7, mediaBytes: url.length },
    ],
    [
      "of responses has instructions",
      { input: "a", instructions: "b" },
      { texts: ["a", "b"], tokens: 3, mediaBytes: 0 },
    ],
    ["of embeddings has all inputs", { input: ["a", "b"] }, { texts: ["a", "b"], tokens: 3, mediaBytes: 0 }],
    ["counts token ids", { prompt: [[1, 2], [3]] }, { texts: [], tokens: 14, mediaBytes: 0 }],
    [
      "has the schemas of tools",
      { messages: [], tools: [{ type: "function" }] },
      { texts: ['[{"type":"function"}]'], tokens: 3, mediaBytes: 0 },
    ],
  ])("%s", (_, body, expected) => {
    const prompt = promptTextOf(body);
    expect({ ...prompt, texts: prompt?.texts.toSorted() }).toEqual(expected);
  });

  test.each<[string, object, number]>([
    ["a template of the client", { messages: [], chat_template: "x".repeat(400) }, 400],
    ["documents", { messages: [], documents: [{ text: "x".repeat(400) }] }, 400],
    ["a long id", { messages: [{ role: "tool", tool_call_id: "x".repeat(400) }] }, 400],
    ["a label that is no text", { messages: [{ type: ["x".repeat(400)] }] }, 400],
    ["but no short members", { messages: [{ role: "a", id: "b" }], model: "m", stream: true, user: "bob" }, 1],
  ])("has %s", (_, body, characters) => {
    const { texts = [] } = promptTextOf(body) ?? {};
    const length = texts.reduce((sum, text) => sum + text.length, 0);
    expect(length).toBeGreaterThanOrEqual(characters);
    expect(length).toBeLessThan(characters + 20);
  });

  test.each([null, 1, "text", [1]])("is none in %j", (body) => expect(promptTextOf(body)).toBeUndefined());

  test("may be nested as deep as JSON allows", () => {
    const deep = JSON.parse(`{"input":${"[".repeat(50_000)}"a"${"]".repeat(50_000)}}`) as unknown;
    expect(promptTextOf(deep)?.texts).toEqual(["a"]);
  });
});

describe("counting", () => {
  const prompt = (...texts: readonly string[]) => ({ texts, tokens: 0, mediaBytes: 0 });

  test("is that of the encoding, where no word is very long", async () => {
    const count = await loadEncoding("o200k_base");
    const word = fc.string({ unit: "grapheme", maxLength: 8 });
    const text = fc.array(word, { maxLength: 60 }).map((words) => words.join(" "));
    fc.assert(
      fc.property(text, (each) => {
        expect(countPrompt(prompt(each), count)).toBe(countTokens(each));
      }),
    );
    expect(countPrompt(prompt("a <|endoftext|> b"), count)).toBeGreaterThan(3);
  });

  test("cuts long words and gaps, and leaves nothing out", () => {
    const part = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.nat(400).map((length) => "x ".repeat(1).padEnd(length)),
    );
    const text = fc.array(fc.tuple(part, fc.integer({ min: 1, max: 200 }))).map((parts) => {
      return parts.map(([each, times]) => each.repeat(times)).join("");
    });
    fc.assert(
      fc.property(text, (each) => {
        fc.pre(each.length <= maxExact);
        const slices: string[] = [];
        countPrompt(prompt(each), (slice) => slices.push(slice));
        expect(slices.join("")).toBe(each);
        for (const slice of slices) {
          // A pair of surrogates is not cut.
          const runs = slice.match(/[^\s\u0000-\u0020]+/g) ?? [];
          for (const run of runs) expect(run.length).toBeLessThanOrEqual(maxRun + 1);
        }
      }),
    );
  });

  test("takes samples of a long prompt, and at least its bytes ÷ 4", () => {
    let counted = 0;
    const each = (slice: string): number => {
      counted += slice.length;
      return slice.length;
    };
    expect(countPrompt(prompt("ab ".repeat(50_000)), each)).toBe(150_000);
    expect(counted).toBe(maxExact);
    expect(countPrompt(prompt("ab ".repeat(50_000)), () => 0)).toBe(37_500);
  });

  test("is bounded for each pathological body", async () => {
    const count = await loadEncoding("o200k_base");
    for (const unit of ["a", " ", "\n", "日", "👩‍👩‍👧", "!?", "a\u0301", "0"]) {
      const body = Buffer.from(JSON.stringify({ input: unit.repeat(60_000 / unit.length) }));
      const cpuMs = cpuMsOf(() => expect(tokensOf(body, count)).toBeGreaterThan(0));
      // Uncut, each takes ten seconds.
      expect(cpuMs).toBeLessThan(5_000);
    }
  }, 60_000);

  test("has no result for a body that cannot be rendered, which must not end the thread", async () => {
    const deep = `{"messages":[],"tools":${'{"0":'.repeat(40_000)}1${"}".repeat(40_000)}}`;
    expect(tokensOf(Buffer.from(deep), await loadEncoding("o200k_base"))).toBeUndefined();
  });

  test.each(["", "[]", "{", '"a"'])("has no result for the body %j", async (body) => {
    expect(tokensOf(Buffer.from(body), await loadEncoding("o200k_base"))).toBeUndefined();
  });
});

describe("the counter of a worker", () => {
  function connect() {
    const clock = new FakeClock();
    const sent: ToTokenThread[] = [];
    const listeners: { message?: (message: FromTokenThread) => void; close?: () => void } = {};
    let connections = 0;
    const counter = new TokenCounter(clock, () => {
      connections++;
      return {
        postMessage: (message) => void sent.push(message),
        on: (event: "message" | "close", listener: never) => Object.assign(listeners, { [event]: listener }),
        close: () => listeners.close?.(),
      };
    });
    const ask = (body = Buffer.from("{}")): (number | undefined)[] => {
      const results: (number | undefined)[] = [];
      counter.count("o200k_base", body, (tokens) => results.push(tokens));
      return results;
    };
    const receive = (message: FromTokenThread): void => listeners.message?.(message);
    return { clock, sent, ask, receive, counter, connections: () => connections };
  }

  test("loads an encoding once, and counts when it is loaded", () => {
    const { ask, sent, receive } = connect();
    expect([ask(), ask()]).toEqual([[undefined], [undefined]]);
    expect(sent).toEqual([{ kind: "load", encoding: "o200k_base" }]);
    receive({ kind: "loaded", encoding: "o200k_base" });
    const result = ask();
    expect(result).toEqual([]);
    receive({ kind: "counted", id: 1, tokens: 7 });
    expect(result).toEqual([7]);
  });

  test("lets a request wait for 100 ms, and 64 until they are counted", () => {
    const { ask, receive, clock } = connect();
    ask();
    receive({ kind: "loaded", encoding: "o200k_base" });
    const results = Array.from({ length: 65 }, () => ask());
    expect(results.filter((each) => each.length > 0)).toHaveLength(1);
    clock.advance(100);
    expect(results.every((each) => each.length === 1)).toBe(true);
    expect(ask()).toEqual([undefined]);
    receive({ kind: "counted", id: 1, tokens: 7 });
    expect(results[0]).toEqual([undefined]);
    expect(ask()).toEqual([]);
  });

  test("has room again for long bodies when the thread has counted one, or has ended", () => {
    const { ask, receive, counter, clock } = connect();
    ask();
    receive({ kind: "loaded", encoding: "o200k_base" });
    const longest = Buffer.alloc(maxCountedBytes);
    const isSent = () => ask(longest).length === 0;
    expect(Array.from({ length: 5 }, isSent)).toEqual([true, true, true, true, false]);
    receive({ kind: "counted", id: 2, tokens: 7 });
    expect([isSent(), isSent()]).toEqual([true, false]);
    counter.close();
    clock.advance(10_000);
    ask();
    receive({ kind: "loaded", encoding: "o200k_base" });
    expect(isSent()).toBe(true);
  });

  test("does not count longer bodies", () => {
    const { ask, receive } = connect();
    ask();
    receive({ kind: "loaded", encoding: "o200k_base" });
    expect(ask(Buffer.alloc(maxCountedBytes + 1))).toEqual([undefined]);
  });

  test("connects again some time after the thread has ended", () => {
    const { ask, receive, counter, clock, connections } = connect();
    ask();
    receive({ kind: "loaded", encoding: "o200k_base" });
    const result = ask();
    counter.close();
    expect(result).toEqual([undefined]);
    expect([ask(), connections()]).toEqual([[undefined], 1]);
    clock.advance(10_000);
    expect([ask(), connections()]).toEqual([[undefined], 2]);
  });
});
