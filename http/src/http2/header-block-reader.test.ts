import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HeaderBlockReader } from "./header-block-reader.ts";
import { HpackDecoder } from "./hpack/hpack-decoder.ts";
import { encodeHeaderBlock } from "./hpack/hpack-encoder.ts";

/** `:method POST`, `:scheme http`, `:path /` by index, the start of every request. */
const head = Buffer.from([0x83, 0x86, 0x84]);

/** A literal with incremental indexing (RFC 7541 §6.2.1). */
function indexed(name: string, value: string): Buffer {
  const literal = encodeHeaderBlock([name, value]);
  literal[0] = 0x40;
  return literal;
}

/** Encodings of fields: some change the table, others refer to it. */
const field = fc.oneof(
  fc.constantFrom("a", "b", "c").map((value) => indexed("x-name", value)),
  fc.constantFrom(62, 63).map((index) => Buffer.from([0x80 | index])),
  fc.constantFrom(encodeHeaderBlock(["x-plain", "1"]), encodeHeaderBlock(["x-long", "v".repeat(600)])),
);
const block = fc.array(field, { maxLength: 2 }).map((fields) => Buffer.concat([head, ...fields]));

type Fields = readonly string[] | undefined;

/** Returns what `read` makes of the blocks, up to the first invalid one. */
function said(blocks: readonly Buffer[], read: (bytes: Buffer) => Fields): (Fields | "broken")[] {
  const all: (Fields | "broken")[] = [];
  try {
    for (const bytes of blocks) all.push(read(bytes));
  } catch {
    all.push("broken");
  }
  return all;
}

/** Reads the blocks without a cache. */
function plainly(blocks: readonly Buffer[]): (Fields | "broken")[] {
  const decoder = new HpackDecoder(4_096, 10_000);
  return said(blocks, (bytes) => decoder.decode(bytes, 0, bytes.length));
}

function remembering(blocks: readonly Buffer[]): (Fields | "broken")[] {
  const reader = new HeaderBlockReader(10_000, (fields) => fields);
  return said(blocks, (bytes) => reader.read(bytes, 0, bytes.length));
}

describe("HeaderBlocks", () => {
  test("returns what each block means at that moment, repeated or not", () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 20 }), (later) => {
        // So that the references are valid from the beginning.
        const first = Buffer.concat([head, indexed("x-name", "first"), indexed("x-name", "second")]);
        const blocks = [first, ...later];
        expect(remembering(blocks)).toEqual(plainly(blocks));
      }),
      { numRuns: 3_000 },
    );
  });

  test("does not decode a cached block again", () => {
    let reads = 0;
    const reader = new HeaderBlockReader(10_000, () => reads++);
    for (let times = 0; times < 5; times++) reader.read(head, 0, head.length);

    expect(reads).toBe(1);
  });
});
