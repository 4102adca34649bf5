/**
 * The estimate of a model's output is never less than its bytes ÷ 4, whatever the content type, framing, compression
 * and splits of the response. A long stream is estimated by samples, so a part may be missing if the pieces vary much
 * in length.
 */
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { expect } from "vitest";
import type { UsageOutcome } from "../../../proxy/src/ir/usage.ts";
import { chatChunk, dataEvent } from "../../../proxy/src/llm/testing/responses.ts";
import { createUsageReader, type ResponseHead } from "../../../proxy/src/llm/usage-reader.ts";
import { chunkSizes, cut } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";

/** The framings of a model's output, and the content types under which a server may send them. */
const framings: Readonly<Record<string, { types: readonly string[]; frame: (pieces: readonly string[]) => string }>> = {
  plain: { types: ["text/plain", "text/markdown; charset=utf-8", ""], frame: (pieces) => pieces.join("") },
  "raw events": {
    types: ["text/event-stream", "text/plain", ""],
    frame: (pieces) => pieces.map((piece) => `data: ${piece}\n\n`).join(""),
  },
  chat: {
    types: ["text/event-stream", "text/plain", "application/json", ""],
    frame: (pieces) => pieces.map((piece) => chatChunk(piece)).join(""),
  },
  "named events": {
    types: ["text/event-stream", ""],
    frame: (pieces) =>
      pieces.map((text) => `event: text\nid: 7\n${dataEvent({ type: "text", delta: { text } })}`).join(""),
  },
  "events on several lines": {
    types: ["text/event-stream"],
    frame: (pieces) =>
      pieces
        .map((text) => `${JSON.stringify({ choices: [{ text }] }, undefined, 1).replaceAll(/^/gm, "data: ")}\n\n`)
        .join(""),
  },
  "lines of JSON": {
    types: ["application/x-ndjson", "text/plain", "application/json", ""],
    frame: (pieces) => pieces.map((response) => `${JSON.stringify({ response })}\n`).join(""),
  },
  "one JSON object": {
    types: ["application/json", "application/json; charset=utf-8", ""],
    frame: (pieces) => JSON.stringify({ choices: pieces.map((text) => ({ text })) }),
  },
  "an array": { types: ["application/json"], frame: (pieces) => JSON.stringify(pieces, undefined, 2) },
};

const codings = {
  identity: (bytes: Buffer) => bytes,
  gzip: (bytes: Buffer) => gzipSync(bytes),
  "gzip in two members": (bytes: Buffer) =>
    Buffer.concat([gzipSync(bytes.subarray(0, bytes.length / 2)), gzipSync(bytes.subarray(bytes.length / 2))]),
  deflate: (bytes: Buffer) => deflateSync(bytes),
  "bare deflate": (bytes: Buffer) => deflateRawSync(bytes),
  br: (bytes: Buffer) => brotliCompressSync(bytes),
  zstd: (bytes: Buffer) => zstdCompressSync(bytes),
};

const encodingOf: Readonly<Record<string, string>> = { "gzip in two members": "gzip", "bare deflate": "deflate" };

/** Lines that may look like a field of an event, a comment, or a usage. */
const beginnings = [
  ":",
  "id:",
  "event: x",
  "retry: 5",
  "data:",
  "{",
  "[",
  "[DONE]",
  '{"usage":{"total_tokens":0}}',
  "",
];
const piece = fc.oneof(
  fc.tuple(fc.constantFrom(...beginnings), fc.string({ maxLength: 30 })).map(([start, rest]) => `\n${start}${rest}`),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom("word ", "ü", "1,2,3", '"', "\\", "\r\n", "{}[],:"),
);

fuzz("usage-estimate", {
  arbitrary: fc.record({
    framing: fc.constantFrom(...Object.keys(framings)),
    type: fc.nat(3),
    coding: fc.constantFrom(...(Object.keys(codings) as (keyof typeof codings)[])),
    pieces: fc.array(piece, { minLength: 1, maxLength: 12 }),
    /**
     * The number of repetitions of each piece: a long stream is dense at first and sparse at its end, or the other way
     * round.
     */
    repeats: fc.constantFrom(1, 1, 1, 40, 400),
    sizes: chunkSizes,
    /** Bytes at the end that are damaged. */
    damaged: fc.constantFrom(0, 0, 0, 6),
  }),
  quickRuns: 150,
  async check({ framing, type, coding, pieces, repeats, sizes, damaged }) {
    const { types, frame } = framings[framing] ?? { types: [], frame: String };
    const contentType = types[type % types.length] ?? "";
    // A usage in a response without a content type is used as reported.
    const written = contentType === "" ? pieces.filter((each) => !each.includes("usage")) : pieces;
    const all = written.flatMap((each) => Array.from({ length: repeats }, () => each));
    const sent = frame(all);
    const bytes = codings[coding](Buffer.from(sent));
    // The checksum of gzip, at which its decoder fails, is after all of its data.
    if (coding === "gzip" && damaged > 0) bytes.fill(0x55, bytes.length - damaged);
    const head: ResponseHead = {
      status: 200,
      requestBytes: 4,
      ...(contentType !== "" && { contentType }),
      ...(coding !== "identity" && { contentEncoding: encodingOf[coding] ?? coding }),
    };
    const outcome = await read(
      head,
      cut(bytes, sizes.length === 1 && repeats > 1 ? [1_000] : sizes.map((n) => n * repeats)),
    );
    expect(outcome.kind).toBe("counted");
    if (outcome.kind !== "counted") return;
    // Delimiters of events do not count, and neither do blanks at the ends of a line.
    const content = all.reduce((sum, each) => sum + contentBytes(withoutMarks(each, contentType), framing), 0);
    const least = sent.length > 16_384 ? 0.5 : 1;
    const { output = 0, total } = outcome.usage;
    // A usage in plain text may be the provider's; then the larger value counts.
    expect(Math.max(output, total - 1)).toBeGreaterThanOrEqual(Math.floor((least * content) / 4));
  },
});

/** Without a content type, text that looks like JSON may be JSON, whose punctuation does not count. */
function withoutMarks(piece: string, contentType: string): string {
  return contentType === "" ? piece.replaceAll(/[{}[\],:"]/g, "") : piece;
}

function contentBytes(piece: string, framing: string): number {
  if (framing !== "raw events") return Buffer.byteLength(piece.toWellFormed());
  return (
    piece
      .split(/[\r\n]+/)
      .map((line) => line.replace(/^data:/, "").trim())
      // Of JSON, its strings count.
      .filter((line) => line !== "[DONE]" && !/^[{[]/.test(line))
      .reduce((sum, line) => sum + Buffer.byteLength(line.toWellFormed()), 0)
  );
}

function read(head: ResponseHead, chunks: readonly Buffer[]): Promise<UsageOutcome> {
  const reader = createUsageReader(head);
  for (const chunk of chunks) reader.push(chunk);
  return new Promise((resolve) => reader.end("whole", resolve));
}
