/** The usage of an LLM response does not depend on how the network splits it, whatever bytes it contains. */
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { UsageOutcome } from "../../../proxy/src/ir/usage.ts";
import { eventStreamMessage } from "../../../proxy/src/llm/testing/event-stream-message.ts";
import { fragments, recordedEventStreams, recordedResponses } from "../../../proxy/src/llm/testing/responses.ts";
import { createUsageReader, type Ending, type ResponseHead } from "../../../proxy/src/llm/usage-reader.ts";
import { chunkSizes, cut, mutated, randomBytes } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";

/** UTF-8 as latin1: one character is one byte. */
const asBytes = (text: string): string => Buffer.from(text).toString("latin1");

const contentTypes = ["application/json", "text/event-stream", "text/plain", "", "application/x-ndjson"];
const encode = {
  identity: (bytes: Buffer) => bytes,
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};

function read(head: ResponseHead, chunks: readonly Buffer[], ending: Ending): Promise<UsageOutcome> {
  const reader = createUsageReader(head);
  for (const chunk of chunks) reader.push(chunk);
  return new Promise((resolve) => reader.end(ending, resolve));
}

fuzz("usage-reader", {
  arbitrary: fc.record({
    contentType: fc.constantFrom(...contentTypes),
    contentEncoding: fc.constantFrom<keyof typeof encode>("identity", "identity", "gzip", "deflate", "br", "zstd"),
    body: mutated(
      recordedResponses.map(({ body }) => asBytes(body)),
      fragments.map(asBytes),
    ),
    sizes: chunkSizes,
    ending: fc.constantFrom<Ending>("whole", "cutShort"),
  }),
  async check({ contentType, contentEncoding, body, sizes, ending }) {
    const head = { status: 200, contentEncoding, ...(contentType !== "" && { contentType }) };
    const bytes = encode[contentEncoding](Buffer.from(body, "latin1"));
    const whole = await read(head, [bytes], ending);
    expect(await read(head, cut(bytes, sizes), ending)).toEqual(whole);
  },
});

const binaryEvents = "application/vnd.amazon.eventstream";

/** Binary streams with a few errors, in which most checksums are wrong. */
fuzz("usage-reader-event-stream", {
  arbitrary: fc.record({
    body: mutated(
      recordedEventStreams.map(({ body }) => body.toString("latin1")),
      ["\0\0\0\x10", ":event-type", "\x07\0\x05chunk", '"usage"', '"bytes":"e30="'],
    ),
    sizes: chunkSizes,
    ending: fc.constantFrom<Ending>("whole", "cutShort"),
  }),
  async check({ body, sizes, ending }) {
    const head = { status: 200, contentType: binaryEvents, requestBytes: 40 };
    const bytes = Buffer.from(body, "latin1");
    const whole = await read(head, [bytes], ending);
    expect(await read(head, cut(bytes, sizes), ending)).toEqual(whole);
    expect(whole.kind).toBe("counted");
  },
});

/** Valid messages with any headers and payloads. */
fuzz("usage-reader-event-stream-messages", {
  arbitrary: fc.record({
    messages: fc.array(
      fc.record({
        type: fc.constantFrom("chunk", "metadata", "contentBlockDelta", "x"),
        kind: fc.constantFrom("event", "event", "exception"),
        payload: mutated(
          [
            '{"usage":{"inputTokens":5,"outputTokens":3,"totalTokens":8}}',
            '{"bytes":"eyJ1c2FnZSI6eyJ0b3RhbF90b2tlbnMiOjV9fQ=="}',
            '{"delta":{"text":"yes"},"p":"ab"}',
          ],
          fragments.map(asBytes),
        ),
      }),
      { maxLength: 6 },
    ),
    sizes: chunkSizes,
    ending: fc.constantFrom<Ending>("whole", "cutShort"),
  }),
  async check({ messages, sizes, ending }) {
    const head = { status: 200, contentType: binaryEvents, requestBytes: 40 };
    const bytes = Buffer.concat(
      messages.map(({ type, kind, payload }) =>
        eventStreamMessage({ ":event-type": type, ":message-type": kind }, Buffer.from(payload, "latin1")),
      ),
    );
    const whole = await read(head, [bytes], ending);
    expect(await read(head, cut(bytes, sizes), ending)).toEqual(whole);
    expect(whole).toHaveProperty("kind");
  },
});

test.each([
  ["application/json", '{"choices": "'],
  ["text/event-stream", "data: "],
  [binaryEvents, "xxxxxxxxxxxxxxxx"],
  // A valid prelude: a message of 2 GiB.
  [binaryEvents, Buffer.from("800000000000000036195ab3", "hex").toString("latin1")],
])("256 MiB of %s without an end are not buffered", async (contentType, beginning) => {
  const reader = createUsageReader({ status: 200, contentType });
  reader.push(Buffer.from(beginning, "latin1"));
  const chunk = Buffer.alloc(65_536, "x");
  const before = process.memoryUsage().rss;
  for (let sent = 0; sent < 4_096; sent++) reader.push(chunk);
  expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024);
  expect(await new Promise((resolve) => reader.end("whole", resolve))).toHaveProperty("kind");
});

/** Bytes that are invalid in the content coding: decoders fail at different places, but always with an outcome. */
fuzz("usage-reader-garbage", {
  arbitrary: fc.record({
    contentEncoding: fc.constantFrom("gzip", "deflate", "br", "zstd", "gzip, br", "x"),
    body: randomBytes(2_000),
    sizes: chunkSizes,
  }),
  async check({ contentEncoding, body, sizes }) {
    const chunks = cut(Buffer.from(body, "latin1"), sizes);
    expect(await read({ status: 200, contentEncoding }, chunks, "whole")).toHaveProperty("kind");
  },
});
