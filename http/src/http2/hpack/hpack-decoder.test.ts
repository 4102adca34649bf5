import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ConnectionError } from "../frame.ts";
import { HpackDecoder } from "./hpack-decoder.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";

function decode(decoder: HpackDecoder, hex: string): string[] | undefined {
  const bytes = Buffer.from(hex.replaceAll(" ", ""), "hex");
  return decoder.decode(bytes, 0, bytes.length);
}

const common = [":method", "GET", ":scheme", "http", ":path", "/", ":authority", "www.example.com"];
const secure = [":method", "GET", ":scheme", "https", ":path", "/index.html", ":authority", "www.example.com"];

describe("HpackDecoder", () => {
  test.each([
    [
      "plain (RFC 7541 C.3)",
      "828684410f7777772e6578616d706c652e636f6d",
      "828684be58086e6f2d6361636865",
      "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ],
    [
      "Huffman-coded (RFC 7541 C.4)",
      "828684418cf1e3c2e5f23a6ba0ab90f4ff",
      "828684be5886a8eb10649cbf",
      "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ],
  ])("follows the table over three requests, %s", (_, first, second, third) => {
    const decoder = new HpackDecoder(4_096, 1_000);

    expect(decode(decoder, first)).toEqual(common);
    expect(decode(decoder, second)).toEqual([...common, "cache-control", "no-cache"]);
    expect(decode(decoder, third)).toEqual([...secure, "custom-key", "custom-value"]);
  });

  test("evicts the oldest entries when the table is full (RFC 7541 C.6)", () => {
    const decoder = new HpackDecoder(256, 1_000);
    const date = "Mon, 21 Oct 2013 20:13:21 GMT";
    const head = ["cache-control", "private", "date", date, "location", "https://www.example.com"];

    const first = decode(
      decoder,
      "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
    );
    const second = decode(decoder, "4883640effc1c0bf");

    expect(first).toEqual([":status", "302", ...head]);
    expect(second).toEqual([":status", "307", ...head]);
    // `:status 302` was the oldest entry and was evicted.
    expect(() => decode(decoder, "c2")).toThrow("no entry 66");
  });

  test("empties the table for an entry larger than the table", () => {
    const decoder = new HpackDecoder(64, 1_000);
    decode(decoder, "400161 0162");
    expect(decode(decoder, "be")).toEqual(["a", "b"]);

    decode(decoder, `400161 28${"62".repeat(40)}`);

    expect(() => decode(decoder, "be")).toThrow("no entry 62");
  });

  test("applies a smaller table size, and rejects one larger than allowed", () => {
    const decoder = new HpackDecoder(4_096, 1_000);
    decode(decoder, "400161 0162");

    expect(decode(decoder, "20 82")).toEqual([":method", "GET"]);
    expect(() => decode(decoder, "be")).toThrow("no entry 62");
    expect(() => decode(decoder, "3fe21f")).toThrow("table size 4097");
  });

  test("reads a list beyond its bound to the end but keeps no fields", () => {
    const decoder = new HpackDecoder(4_096, 200);

    // One entry of 100 bytes, then references to it: 5 bytes that stand for 500.
    decode(decoder, `400161 43${"62".repeat(67)} bebebebe`);
    expect(decoder.isTooLarge).toBe(true);
    expect(decode(decoder, "be")).toEqual(["a", "b".repeat(67)]);
  });

  test.each([
    ["an index of 0", "80"],
    ["an index beyond the tables", "be"],
    ["an end within a literal", "400161"],
    ["an end within an integer", "ff"],
    ["an integer without end", "ffffffffffff01"],
    ["a string beyond the block", "40017f01"],
    ["a size update after a field", "8220"],
    ["an end-of-string word", "400161 84ffffffff"],
    ["padding of eight bits", "400161 8207ff"],
    ["padding of zeroes", "400161 8118"],
  ])("rejects %s", (_, hex) => {
    expect(() => decode(new HpackDecoder(4_096, 1_000), hex)).toThrow(ConnectionError);
  });

  test("decodes what the encoder writes", () => {
    const token = fc.string({ unit: fc.constantFrom("a", "z", "-", "0"), minLength: 1 });
    const value = fc.string({ unit: fc.nat(255).map((code) => String.fromCharCode(code)), maxLength: 300 });
    fc.assert(
      fc.property(fc.array(fc.tuple(token, value)), (pairs) => {
        const block = encodeHeaderBlock(pairs.flat());
        expect(new HpackDecoder(4_096, 1_000_000).decode(block, 0, block.length)).toEqual(pairs.flat());
      }),
    );
  });

  test("returns fields or throws a ConnectionError for any bytes", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 5 }), (blocks) => {
        const decoder = new HpackDecoder(256, 500);
        try {
          for (const bytes of blocks) decoder.decode(Buffer.from(bytes), 0, bytes.length);
        } catch (error) {
          expect(error).toBeInstanceOf(ConnectionError);
        }
      }),
      { numRuns: 5_000 },
    );
  });
});
