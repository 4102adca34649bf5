import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ReplySplitter } from "./reply-splitter.ts";

/** Encodes a reply of RESP 2. */
type Reply = string | number | null | Error | readonly Reply[];

function encode(reply: Reply): string {
  if (reply === null) return "$-1\r\n";
  if (typeof reply === "number") return `:${reply}\r\n`;
  if (typeof reply === "string") return `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`;
  if (reply instanceof Error) return `-${reply.message}\r\n`;
  return `*${reply.length}\r\n${reply.map(encode).join("")}`;
}

const reply = fc.letrec<{ readonly reply: Reply; readonly leaf: Reply }>((tie) => ({
  leaf: fc.oneof(
    fc.integer(),
    fc.string({ unit: "binary", maxLength: 40 }),
    fc.constantFrom("", "\r\n", "*1\r\n:1\r\n", "$3"),
    fc.constant(null),
    fc.constant(new Error("ERR any")),
  ),
  reply: fc.oneof({ maxDepth: 4 }, tie("leaf"), fc.array(tie("reply"), { maxLength: 4 })),
})).reply;

/** Splits bytes into chunks of these lengths, in turn. */
function chunksOf(bytes: Buffer, lengths: readonly number[]): readonly Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const length = lengths[turn % lengths.length] ?? 1;
    chunks.push(bytes.subarray(at, at + length));
    at += length;
  }
  return chunks;
}

test("returns each reply with the chunk that completes it, however the bytes are split", () => {
  const lengths = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(fc.array(reply, { maxLength: 8 }), lengths, (replies, chunkLengths) => {
      const texts = replies.map((each) => Buffer.from(encode(each)));
      const ends = texts.map((_, i) => Buffer.concat(texts.slice(0, i + 1)).length);
      const splitter = new ReplySplitter();
      let [given, returned] = [0, 0];
      for (const chunk of chunksOf(Buffer.concat(texts), chunkLengths)) {
        given += chunk.length;
        returned += splitter.push(chunk)?.length ?? 0;
        expect(returned).toBe(Math.max(0, ...ends.filter((end) => end <= given)));
        expect(splitter.replies).toBe(ends.filter((end) => end <= given).length);
      }
    }),
  );
});

test("returns the bytes as they came", () => {
  const bytes = Buffer.from("+OK\r\n*2\r\n$2\r\n\r\n\r\n:1\r\n*-1\r\n*0\r\n-ERR x\r\n");
  const splitter = new ReplySplitter();
  const returned = chunksOf(bytes, [3]).map((chunk) => splitter.push(chunk) ?? Buffer.alloc(0));
  expect(Buffer.concat(returned)).toEqual(bytes);
});

describe("throws", () => {
  const push = (text: string) => () => new ReplySplitter().push(Buffer.from(text));

  test.each([
    ["an unknown type", "%1\r\n", "unknown type 37"],
    ["a type of RESP 3", "_\r\n", "unknown type 95"],
    ["a CR without an LF", "+OK\rx", "a CR without an LF"],
    ["a length with other characters", "$1a\r\n", "not a number"],
    ["a length with a sign in it", "$1-\r\n", "not a number"],
    ["no length", "$\r\n", 'the length ""'],
    ["a negative length", "*-2\r\n", 'the length "-2"'],
    ["a string beyond the bound", "$16777217\r\n", "more than 16777216 bytes"],
    ["a length of many digits", `$${"0".repeat(13)}`, "more than 16777216 bytes"],
    ["an array beyond the bound", "*1048577\r\n", "more than 1048576 elements"],
    ["arrays beyond the bound together", "*3\r\n*600000\r\n*600000\r\n", "more than 1048576 elements"],
    ["deep arrays", "*1\r\n".repeat(17), "more than 16 nested arrays"],
  ])("at %s", (_, text, reason) => {
    expect(push(text)).toThrow(reason);
  });

  test("when chunks of one byte take more memory than the bound", () => {
    const splitter = new ReplySplitter();
    splitter.push(Buffer.from("$16000000\r\n"));
    const chunk = Buffer.from("x");
    expect(() => {
      for (let chunks = 0; chunks < 70_000; chunks++) splitter.push(chunk);
    }).toThrow("more than 16777216 bytes");
  });
});

test("bounds hold for each reply alone", () => {
  const splitter = new ReplySplitter();
  const array = Buffer.from(`*1000\r\n${":1\r\n".repeat(1_000)}`);
  for (let replies = 1; replies <= 2_000; replies++) {
    splitter.push(array);
    expect(splitter.replies).toBe(replies);
  }
});
