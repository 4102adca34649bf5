import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { UsageOutcome } from "../ir/usage.ts";
import { maxPendingBytes } from "./content-decoder.ts";
import { blockBytes } from "./sse-usage.ts";
import {
  chatChunk,
  chatUsageChunk,
  dataEvent,
  done,
  fragments,
  namedEvent,
  recordedResponses,
} from "./testing/responses.ts";
import { createUsageReader, type Ending, type ResponseHead } from "./usage-reader.ts";

const ndjson: ResponseHead = { status: 200, contentType: "application/x-ndjson" };
const sse = { status: 200, contentType: "text/event-stream; charset=utf-8" };
const json = { status: 200, contentType: "application/json" };

/** Reads a plain response, whose outcome must be known when `end` returns. */
function read(head: ResponseHead, chunks: readonly (string | Uint8Array)[], ending: Ending = "whole") {
  const reader = createUsageReader(head);
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  const outcomes: UsageOutcome[] = [];
  reader.end(ending, (outcome) => outcomes.push(outcome));
  expect(outcomes).toHaveLength(1);
  return outcomes[0];
}

function readDecoded(contentEncoding: string, chunks: readonly Uint8Array[], ending: Ending = "whole") {
  const reader = createUsageReader({ ...sse, contentEncoding });
  for (const chunk of chunks) reader.push(chunk);
  return new Promise<UsageOutcome>((resolve) => reader.end(ending, resolve));
}

function chunksOf(bytes: Buffer, size: number): readonly Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };
const counted = { kind: "counted", usage: { input: 7, output: 2, total: 9, model: "gpt-mock-1", estimated: false } };
const filler = chatChunk("word ".repeat(20), { usage: null });
const manyEvents = (bytes: number) => filler.repeat(Math.ceil(bytes / filler.length));

describe("createUsageReader", () => {
  describe.each(recordedResponses)("with an $name", ({ contentType, body, usage: expected }) => {
    const bytes = Buffer.from(body);
    const outcome = { kind: "counted", usage: expected };

    test("reads its usage, cut in two at each byte", () => {
      for (let at = 0; at <= bytes.length; at++) {
        expect(read({ status: 200, contentType }, [bytes.subarray(0, at), bytes.subarray(at)])).toEqual(outcome);
      }
    });

    test("reads its usage byte by byte", () => {
      expect(read({ status: 200, contentType }, chunksOf(bytes, 1))).toEqual(outcome);
    });

    test.each(["\r\n", "\r"])("reads its usage with line ends %j, comments and no last line end", (end) => {
      const stream = `: hello\n\n${body}: bye\n`.replaceAll("\n", end).trimEnd();
      expect(read({ status: 200, contentType }, [contentType === "application/json" ? body : stream])).toEqual(outcome);
    });

    test.each([undefined, "text/plain; charset=utf-8"])("reads its usage under content type %s", (label) => {
      expect(read({ status: 200, ...(label !== undefined && { contentType: label }) }, chunksOf(bytes, 7))).toEqual(
        outcome,
      );
    });
  });

  test.each([
    [
      "Cohere's reranking, which reports search units",
      { results: [{ index: 0, relevance_score: 0.9 }], meta: { billed_units: { search_units: 1 } } },
    ],
    ["a transcription that is billed by its duration", { text: "yes", usage: { type: "duration", seconds: 9 } }],
  ])("estimates %s", (_name, body) => {
    const outcome = read({ ...json, requestBytes: 400 }, [JSON.stringify(body)]);
    expect(outcome).toMatchObject({ kind: "counted", usage: { input: 100, estimated: true } });
  });

  test("reads a usage before, between and after any number of other events", () => {
    const event = chatUsageChunk(usage);
    for (const size of [0, blockBytes - 300, 2 * blockBytes - 100, 2 * blockBytes, 100_000]) {
      for (const stream of [
        event + manyEvents(size),
        manyEvents(size) + event,
        manyEvents(size) + event + manyEvents(size),
      ]) {
        expect(read(sse, chunksOf(Buffer.from(stream), 1_999))).toEqual(counted);
      }
    }
  });

  test.each(["created_at", "meta_info", "usage", "when"])(
    "reads the usage of every dialect, whatever the arguments of a tool are called: %s",
    (name) => {
      const call = { functionCall: { name: "f", args: { [name]: "text" } } };
      const first = dataEvent({ candidates: [{ content: { parts: [call] } }] });
      const report = { promptTokenCount: 7, candidatesTokenCount: 2, totalTokenCount: 9 };
      for (const last of [
        { usageMetadata: report },
        { usage },
        { meta_info: { id: "a", prompt_tokens: 7, completion_tokens: 2 } },
        { meta: { tokens: { input_tokens: 7, output_tokens: 2 } } },
        { created_at: "x", prompt_eval_count: 7, eval_count: 2 },
      ]) {
        const event = dataEvent({ model: "gpt-mock-1", ...last });
        expect(read(sse, [first + event])).toEqual(counted);
        expect(read(sse, [event + first])).toEqual(counted);
      }
    },
  );

  describe("reads the last event", () => {
    const meta = { billed_units: { input_tokens: 1 }, tokens: { input_tokens: 7, output_tokens: 2 } };
    const figures = { total_input_tokens: 7, total_output_tokens: 2, total_tokens: 9 };
    test.each([
      ["Cohere's first API", { event_type: "stream-end", response: { text: "yes", model: "gpt-mock-1", meta } }],
      [
        "Gemini's interactions",
        { event_type: "interaction.complete", interaction: { id: "x", model: "gpt-mock-1", usage: figures } },
      ],
    ])("of %s", (_api, last) => {
      const first = { event_type: "text", text: "yes", delta: { text: "yes" } };
      const long = { text: "word ".repeat(20_000), ...last };
      for (const end of [last, long]) {
        expect(read({ ...sse, requestBytes: 40 }, [dataEvent(first), dataEvent(end)])).toEqual(counted);
        for (const contentType of ["application/stream+json", "application/json"]) {
          const lines = [first, end].map((event) => `${JSON.stringify(event)}\n`);
          expect(read({ status: 200, contentType, requestBytes: 40 }, lines)).toEqual(counted);
        }
      }
    });
  });

  test("reads the input of a long message from its first event", () => {
    const start = {
      type: "message_start",
      message: { model: "claude-mock", usage: { input_tokens: 25, output_tokens: 1 } },
    };
    const delta = { type: "content_block_delta", delta: { type: "text_delta", text: "word ".repeat(9) } };
    const stop = { type: "message_delta", usage: { output_tokens: 5_000 } };
    const stream = namedEvent(start) + namedEvent(delta).repeat(2_000) + namedEvent(stop);
    expect(read(sse, chunksOf(Buffer.from(stream), 777))).toEqual({
      kind: "counted",
      usage: { input: 25, output: 5_000, total: 5_025, model: "claude-mock", estimated: false },
    });
  });

  test.each([1_000, blockBytes, 3 * blockBytes, 1_000_000])(
    "reads a last event that repeats %d bytes around its usage, and is not misled by the client's tools",
    (size) => {
      const echo = { text: "é".repeat(size / 2), tools: [{ parameters: { usage: { total_tokens: 1 } } }] };
      const response = { model: "gpt-mock-1", instructions: echo, usage, metadata: echo };
      const stream = manyEvents(5_000) + namedEvent({ type: "response.completed", response });
      expect(read(sse, chunksOf(Buffer.from(stream), 4_001))).toEqual(counted);
      expect(read(sse, [stream])).toEqual(counted);
    },
  );

  test("continues after a line of any length that ends with CR", () => {
    const stream = (dataEvent({ text: "x".repeat(200_000) }) + chatUsageChunk(usage)).replaceAll("\n", "\r");
    expect(read(sse, chunksOf(Buffer.from(stream), 1_999))).toEqual(counted);
  });

  test("continues after a line of any length", () => {
    const image = namedEvent({ type: "image", b64: "A".repeat(200_000) });
    expect(read(sse, chunksOf(Buffer.from(image + image + chatUsageChunk(usage) + done), 4_001))).toEqual(counted);
  });

  test("reads a body of many megabytes without a copy, with the usage at any position", () => {
    const data = Array.from({ length: 200 }, () => Array.from({ length: 1_536 }, (_, i) => i / 7));
    for (const body of [
      { data, model: "gpt-mock-1", usage },
      { usage, model: "gpt-mock-1", data },
      { data, model: "gpt-mock-1", usage, more: data },
    ]) {
      expect(read(json, chunksOf(Buffer.from(JSON.stringify(body)), 65_536))).toEqual(counted);
    }
  });

  test("reads a JSON body with any content type, and nothing from other formats", () => {
    const body = JSON.stringify({ model: "gpt-mock-1", usage });
    expect(read({ status: 200 }, [body])).toEqual(counted);
    expect(read({ status: 200, contentType: "text/plain" }, [body])).toEqual(counted);
    expect(read({ status: 200, contentType: "text/html" }, [`<p>${body}</p>`])).toEqual({
      kind: "uncounted",
      reason: "absent",
    });
  });

  test.each([
    ["no body", json, [], "absent"],
    ["a body without a usage", json, ['{"data":[{"id":"text"}]}'], "absent"],
    ["a stream without a text of a model", sse, [dataEvent({ usage: null, x: "text" }), done], "absent"],
    [
      "a usage in a comment or another field",
      sse,
      [`: {"usage":{"total_tokens":1}}\nid: {"usage":{"total_tokens":1}}\n\n`],
      "absent",
    ],
    ["a negative usage", json, ['{"usage":{"total_tokens":-1}}'], "malformed"],
    ["a usage of 1e308", sse, [dataEvent({ usage: { total_tokens: 1e308 } })], "malformed"],
    ["a usage that is a string", sse, ['data: {"usage": "12"}\n\n'], "malformed"],
    ["a usage with an incomplete figure", json, ['{"usage":{"total_tokens":1'], "absent"],
    ["an error without a usage", { ...json, status: 500 }, ['{"error":{}}'], "errorStatus"],
    ["a timeout of a request without a body", { ...json, status: 504 }, ['{"error":{}}'], "errorStatus"],
    ["an error with a bad usage", { ...json, status: 429 }, ['{"usage":{"total_tokens":-1}}'], "malformed"],
    ["an unknown coding", { ...json, contentEncoding: "snappy" }, ["xxxx"], "undecodable"],
    ["several codings", { ...json, contentEncoding: "gzip, br" }, ["xxxx"], "undecodable"],
  ] as const)("does not count %s: %s", (_name, head, chunks, reason) => {
    expect(read(head, chunks)).toEqual({ kind: "uncounted", reason });
  });

  test.each([
    ["a stream whose usage is always null", sse, [filler, done], 25],
    ["a body", json, [JSON.stringify({ choices: [{ message: { content: "x".repeat(400) } }] })], 106],
    ["a bad usage", json, [JSON.stringify({ usage: "12", content: [{ text: "x".repeat(400) }] })], 105],
    ["an opened message", sse, [namedEvent({ type: "x", delta: { text: "x".repeat(400) } })], 100],
    ["lines of JSON", ndjson, [`${JSON.stringify({ message: { content: "x".repeat(400) } })}\n`.repeat(3)], 300],
    ["an unknown coding", { ...json, contentEncoding: "snappy" }, ["x".repeat(400)], 100],
  ] as const)(
    "estimates input and output where a model has written and no good usage is reported: %s",
    (_name, head, chunks, output) => {
      expect(read({ ...head, requestBytes: 30 }, chunks)).toEqual({
        kind: "counted",
        usage: { input: 8, output, total: 8 + output, estimated: true },
      });
    },
  );

  describe("sums the generations of SGLang", () => {
    const generation = (id: string) => ({ text: "y", meta_info: { id, prompt_tokens: 5, completion_tokens: 1_000 } });
    test.each([1, 63, 64, 65, 1_000])("whose ids begin with %d equal characters", (length) => {
      const generations = Array.from({ length: 50 }, (_, i) => generation(`${"A".repeat(length)}_${String(i)}`));
      const all = { kind: "counted", usage: { input: 250, output: 50_000, total: 50_250, estimated: false } };
      expect(read(json, [JSON.stringify(generations)])).toEqual(all);
      expect(read(sse, [...generations, ...generations].map(dataEvent))).toEqual(all);
    });

    test("whose ids are too long to keep: by their index in an array, with an estimate in a stream", () => {
      const generations = Array.from({ length: 50 }, (_, i) => generation(`${"A".repeat(5_000)}_${String(i)}`));
      expect(read(json, [JSON.stringify(generations)])).toMatchObject({ usage: { total: 50_250, estimated: false } });
      const events = generations.map((each) => dataEvent({ ...each, text: "y".repeat(4_000) }));
      const outcome = read({ ...sse, requestBytes: 40 }, events);
      expect(outcome).toMatchObject({ kind: "counted", usage: { estimated: true } });
      expect(outcome?.kind === "counted" ? outcome.usage.total : 0).toBeGreaterThan(50_000);
    });

    test("with the same id in one array", () => {
      expect(read(json, [JSON.stringify([generation("a"), generation("a")])])).toMatchObject({
        usage: { total: 2_010 },
      });
    });
  });

  describe("estimates a response of several parts", () => {
    const small = { text: "a", meta_info: { id: "2", prompt_tokens: 5, completion_tokens: 1 } };
    const long = (more: object) => ({ text: "y".repeat(4_000), meta_info: { id: "1", prompt_tokens: 5, ...more } });
    const logprobs = Array.from({ length: 3_000 }, (_, i) => [-0.12345, i, null]);
    test.each([
      ["is too long to keep", long({ completion_tokens: 3_000, logprobs }), 3_500],
      ["has an invalid figure", long({ completion_tokens: -1 }), 1_000],
      ["is not JSON", long({ completion_tokens: 3_000, x: "bad" }), 1_000],
    ])("one of which %s", (_name, part, least) => {
      for (const parts of [
        [part, small],
        [small, part],
      ]) {
        for (const head of [json, sse]) {
          const body = head === sse ? parts.map(dataEvent).join("") : JSON.stringify(parts);
          const bytes = Buffer.from(body.replace('"x":"bad"', '"x":NaN'));
          const outcome = read({ ...head, requestBytes: 40 }, chunksOf(bytes, 1_000));
          expect(outcome).toMatchObject({ kind: "counted", usage: { input: 10, estimated: true } });
          expect(outcome?.kind === "counted" ? outcome.usage.total : 0).toBeGreaterThan(least);
        }
      }
    });
  });

  describe("takes the larger of a report and an estimate", () => {
    const report = '{"usage":{"total_tokens":0,"prompt_tokens":0}}';
    test.each([
      ["text/plain; charset=utf-8", `${report}\n`],
      ["text/plain", `data: ${report}\n`],
      ["text/plain;x=json", `${report}\n`],
      ["text/markdown", `\n${report}\n`],
      ["application/octet-stream", `${report}\n`],
    ])("of %s that begins with %j", (contentType, start) => {
      const outcome = read({ status: 200, contentType, requestBytes: 400 }, [start + "word ".repeat(800)]);
      expect(outcome).toMatchObject({ kind: "counted", usage: { input: 100, estimated: true } });
      expect(outcome?.kind === "counted" ? outcome.usage.total : 0).toBeGreaterThanOrEqual(1_100);
      const long = read({ status: 200, contentType, requestBytes: 400 }, [start + "word ".repeat(8_000)]);
      expect(long?.kind === "counted" ? long.usage.total : 0).toBeGreaterThanOrEqual(10_100);
    });

    test("of plain text, for which a larger report is used", () => {
      const large = JSON.stringify({ usage: { total_tokens: 900 } });
      expect(read({ status: 200, contentType: "text/plain", requestBytes: 4 }, [large])).toEqual({
        kind: "counted",
        usage: { total: 900, estimated: false },
      });
    });

    test.each([undefined, "application/json", "application/stream+json", "text/event-stream", "application/x-ndjson"])(
      "but believes the report under %s",
      (contentType) => {
        const head = { status: 200, requestBytes: 400, ...(contentType !== undefined && { contentType }) };
        const body = JSON.stringify({ x: "word ".repeat(800), usage: { total_tokens: 0 } });
        expect(read(head, [body])).toEqual({ kind: "counted", usage: { total: 0, estimated: false } });
      },
    );
  });

  test("counts the usage of an error response that has one", () => {
    expect(read({ ...json, status: 500 }, [JSON.stringify({ model: "gpt-mock-1", usage })])).toEqual(counted);
  });

  test("keeps no reference to the chunks of a plain response", () => {
    const reader = createUsageReader(sse);
    for (const chunk of chunksOf(Buffer.from(manyEvents(40_000) + chatUsageChunk(usage)), 500)) {
      const copy = Buffer.from(chunk);
      reader.push(copy);
      copy.fill(0);
    }
    reader.end("whole", (outcome) => expect(outcome).toEqual(counted));
  });

  describe("with a compressed response", () => {
    const body = Buffer.from(manyEvents(70_000) + chatUsageChunk(usage) + done);

    test.each([
      ["gzip", gzipSync],
      ["x-gzip", gzipSync],
      [" GZIP ", gzipSync],
      ["deflate", deflateSync],
      ["deflate", deflateRawSync],
      ["br", brotliCompressSync],
      ["zstd", zstdCompressSync],
    ] as const)("reads %s", async (encoding, compress) => {
      const compressed = compress(body);
      expect(await readDecoded(encoding, [compressed])).toEqual(counted);
      expect(await readDecoded(encoding, chunksOf(compressed, 1))).toEqual(counted);
    });

    test.each(["gzip", "deflate", "br", "zstd"])("counts nothing for invalid %s", async (encoding) => {
      const noise = Buffer.from("this is not what its label says, and long enough to tell so".repeat(9));
      expect(await readDecoded(encoding, [noise, noise])).toEqual({ kind: "uncounted", reason: "undecodable" });
    });

    test.each([
      ["gzip", gzipSync],
      ["br", brotliCompressSync],
      ["zstd", zstdCompressSync],
    ] as const)("estimates incomplete %s of a client that left", async (encoding, compress) => {
      const text = Array.from({ length: 2_000 }, (_, i) => chatChunk(String(Math.sin(i)))).join("");
      const compressed = compress(Buffer.from(text));
      const outcome = await readDecoded(encoding, [compressed.subarray(0, -20)], "cutShort");
      expect(outcome).toMatchObject({ kind: "counted", usage: { estimated: true } });
    });

    test("fails when the decoder falls too far behind", async () => {
      const compressed = gzipSync(Buffer.alloc(2 * maxPendingBytes), { level: 0 });
      expect(await readDecoded("gzip", chunksOf(compressed, 65_536))).toEqual({
        kind: "uncounted",
        reason: "undecodable",
      });
    });

    test("ends synchronously without a body", async () => {
      expect(await readDecoded("gzip", [])).toEqual({ kind: "uncounted", reason: "absent" });
    });
  });

  describe("when the client leaves", () => {
    test("counts the usage that the upstream has reported", () => {
      expect(read(sse, [filler, chatUsageChunk(usage)], "cutShort")).toEqual(counted);
    });

    test("estimates a quarter of a token for each byte of text, rounded up", () => {
      const stream = [chatChunk("Hello"), chatChunk(" wörld")];
      const estimate = { output: 3, total: 3, model: undefined, estimated: true };
      expect(read(sse, stream, "cutShort")).toEqual({ kind: "counted", usage: estimate });
    });

    test.each([
      [
        "chat with tools",
        dataEvent({ choices: [{ delta: { tool_calls: [{ id: "c", function: { arguments: "12345678" } }] } }] }),
        2,
      ],
      ["responses", namedEvent({ type: "response.output_text.delta", item_id: "i", delta: "12345678" }), 2],
      ["Anthropic", namedEvent({ type: "content_block_delta", delta: { type: "text_delta", text: "12345678" } }), 2],
      ["an event without text", dataEvent({ choices: [{ delta: { role: "assistant" } }] }), 1],
      ["an incomplete event", 'data: {"choices":[{"delta":{"content":"123', 1],
    ])("estimates %s", (_name, stream, total) => {
      expect(read(sse, [stream], "cutShort")).toMatchObject({ kind: "counted", usage: { total, estimated: true } });
    });

    test("estimates a long stream by the share of text in its last events", () => {
      const stream = manyEvents(200_000);
      const text = (stream.length / filler.length) * 100;
      const outcome = read(sse, chunksOf(Buffer.from(stream), 1_000), "cutShort");
      const total = outcome?.kind === "counted" ? outcome.usage.total : 0;
      expect(total).toBeGreaterThan((text / 4) * 0.97);
      expect(total).toBeLessThan((text / 4) * 1.03);
    });

    test.each([
      ["thin", 4],
      ["dense", 160],
    ])("estimates a long stream whose end is %s by the whole stream", (_end, last) => {
      const part = (length: number) => chatChunk("x".repeat(length)).repeat(600);
      const outcome = read(sse, chunksOf(Buffer.from(part(164 - last) + part(last)), 1_000), "cutShort");
      const total = outcome?.kind === "counted" ? outcome.usage.total : 0;
      expect(total).toBeGreaterThan(((600 * 164) / 4) * 0.9);
      expect(total).toBeLessThan(((600 * 164) / 4) * 1.1);
    });

    test("counts the text of long lines, but not of events that repeat what was streamed", () => {
      const delta = { type: "response.output_text.delta", delta: "x".repeat(40_000) };
      const completed = { type: "response.completed", response: { output: [{ text: "x".repeat(40_000) }] } };
      const outcome = read(
        sse,
        [namedEvent({ ...delta, delta: "xxxx" }), ...[delta, completed].map(namedEvent)],
        "cutShort",
      );
      const total = outcome?.kind === "counted" ? outcome.usage.total : 0;
      expect(total).toBeGreaterThanOrEqual(10_001);
      expect(total).toBeLessThan(10_050);
    });

    test("estimates a JSON body by the text in it", () => {
      const body = JSON.stringify({ choices: [{ message: { content: "x".repeat(4_000) } }] });
      const outcome = read(json, [body.slice(0, 2_000)], "cutShort");
      expect(outcome).toMatchObject({ kind: "counted", usage: { estimated: true, total: 497 } });
    });

    test.each([
      ["ids of tokens", { choices: [{ token_ids: new Array<number>(1_000).fill(15_043) }] }, 1_000],
      ["ids in an unknown format", { outputs: [{ data: new Array<number>(1_000).fill(7) }] }, 1_000],
      ["numbers that are not ids", { outputs: [{ data: new Array<number>(1_000).fill(0.5) }] }, 0],
    ])("estimates a JSON body by its %s", (_name, body, tokens) => {
      const outcome = read({ ...json, requestBytes: 4 }, [JSON.stringify(body)], "whole");
      const total = outcome?.kind === "counted" ? outcome.usage.total : undefined;
      expect(total).toBeGreaterThanOrEqual(tokens);
      // Names of members and the input are text too.
      expect(total).toBeLessThan(tokens + 12);
    });

    test("reads events after a byte order mark without a content type", () => {
      const stream = `\ufeff${chatChunk("Hello")}${chatUsageChunk(usage)}`;
      expect(read({ status: 200 }, [stream], "whole")).toEqual(counted);
    });

    test("counts an estimate from the first byte of a response on, and nothing before it or for an error", () => {
      for (let at = 1; at < filler.length; at += 7) {
        expect(read(sse, [filler.slice(0, at)], "cutShort")).toMatchObject({
          kind: "counted",
          usage: { estimated: true },
        });
      }
      expect(read(sse, [], "cutShort")).toEqual({ kind: "uncounted", reason: "absent" });
      expect(read({ ...sse, status: 500 }, [filler], "cutShort")).toEqual({
        kind: "uncounted",
        reason: "errorStatus",
      });
    });
  });

  test("reads the same usage from any chunks of a stream", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40_000 }), { minLength: 1, maxLength: 6 });
    const event = fc.oneof(
      fc.string().map((content) => chatChunk(content, { usage: null })),
      fc.nat(60_000).map((length) => chatChunk("x".repeat(length))),
      fc.record({ prompt_tokens: fc.nat(99), completion_tokens: fc.nat(99) }).map(chatUsageChunk),
      fc.jsonValue().map((value) => dataEvent({ usage: value })),
      fc.constant(": comment\n\n"),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), sizes, (events, chunkSizes) => {
        const bytes = Buffer.from(events.join(""));
        const chunks: Buffer[] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = chunkSizes[i % chunkSizes.length] ?? 1;
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        expect(read(sse, chunks)).toEqual(read(sse, events));
      }),
    );
  });

  test("reads the same usage from any chunks of an almost valid body or stream", () => {
    const text = fc.array(fc.constantFrom(...fragments), { maxLength: 30 }).map((pieces) => pieces.join(""));
    fc.assert(
      fc.property(text, fc.constantFrom(json, sse), fc.nat(200), (body, head, at) => {
        const bytes = Buffer.from(body);
        const whole = read(head, [bytes]);
        expect(read(head, [bytes.subarray(0, at), bytes.subarray(at)])).toEqual(whole);
        expect(read(head, chunksOf(bytes, 1))).toEqual(whole);
      }),
      { numRuns: 2_000 },
    );
  });
});
