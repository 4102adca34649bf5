/** The usage of an LLM response does not depend on how the network splits it, whatever bytes it contains. */
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { UsageOutcome } from "../../../proxy/src/ir/usage.ts";
import { fragments, recordedResponses } from "../../../proxy/src/llm/testing/responses.ts";
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

test.each([
  ["application/json", '{"choices": "'],
  ["text/event-stream", "data: "],
])("256 MiB of %s without an end are not buffered", async (contentType, beginning) => {
  const reader = createUsageReader({ status: 200, contentType });
  reader.push(Buffer.from(beginning));
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
