import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { zstdFrame } from "../../../test/support/zstd-frame.ts";
import { ContentDecoder, DecoderMemory } from "./content-decoder.ts";

const kib = 1024;
const mib = kib * kib;

/** A response that fills a window: about 4 KiB decode to 16 MiB. */
const zeros = Buffer.alloc(16 * mib);

interface Decoded {
  readonly failed: boolean;
  readonly bytes: number;
}

async function decode(encoding: string, body: Buffer, memory = new DecoderMemory(256 * mib)): Promise<Decoded> {
  let bytes = 0;
  const decoder = new ContentDecoder(encoding, (piece) => (bytes += piece.length), { memory });
  decoder.push(body);
  const failed = await new Promise<boolean>((done) => decoder.end(done));
  return { failed, bytes };
}

describe("a window", () => {
  test("of zstd may have 8 MiB (RFC 9659)", async () => {
    expect(await decode("zstd", zstdFrame(23, "abc"))).toEqual({ failed: false, bytes: 3 });
  });

  test.each([24, 27, 31])("of zstd must not have 2^%i bytes", async (windowLog) => {
    expect(await decode("zstd", zstdFrame(windowLog, "abc"))).toEqual({ failed: true, bytes: 0 });
    expect((await decode("zstd", Buffer.concat([zstdFrame(23, "abc"), zstdFrame(windowLog, "abc")]))).failed).toBe(
      true,
    );
  });

  test("of brotli may have 16 MiB, and must not be of the large-window format", async () => {
    const compress = (window: number, large: number): Buffer =>
      brotliCompressSync(zeros, {
        params: {
          [constants.BROTLI_PARAM_LGWIN]: window,
          [constants.BROTLI_PARAM_QUALITY]: 4,
          [constants.BROTLI_PARAM_LARGE_WINDOW]: large,
        },
      });
    expect(await decode("br", compress(24, 0))).toEqual({ failed: false, bytes: 16 * mib });
    expect((await decode("br", compress(27, 1))).failed).toBe(true);
  });
});

describe("the memory of all decoders", () => {
  const bombs: readonly [string, Buffer, number][] = [
    ["br", brotliCompressSync(zeros, { params: { [constants.BROTLI_PARAM_LGWIN]: 24 } }), 20 * mib],
    ["zstd", zstdCompressSync(zeros), 12 * mib],
  ];

  test.each(bombs)("is bounded for %s, and released", async (encoding, bomb, max) => {
    const memory = new DecoderMemory(max);
    let bytes = 0;
    const open = new ContentDecoder(encoding, (piece) => (bytes += piece.length), { memory });
    open.push(bomb);
    await expect.poll(() => bytes).toBe(zeros.length);
    // The decoder keeps its window until `end` is called.
    expect(memory.used).toBeGreaterThan(max / 2);
    expect((await decode(encoding, bomb, memory)).failed).toBe(true);
    expect(await new Promise((done) => open.end(done))).toBe(false);
    await expect.poll(() => memory.used).toBe(0);
    expect(await decode(encoding, bomb, memory)).toEqual({ failed: false, bytes: zeros.length });
  });

  test("includes waiting input, and makes a decoder beyond the bound fail", async () => {
    const memory = new DecoderMemory(100 * kib);
    const open = new ContentDecoder("gzip", () => undefined, { memory });
    open.push(gzipSync("x"));
    expect(memory.used).toBeGreaterThan(32 * kib);
    const other = new ContentDecoder("gzip", () => undefined, { memory });
    other.push(Buffer.alloc(60 * kib));
    expect(await new Promise((done) => other.end(done))).toBe(true);
    expect(await new Promise((done) => open.end(done))).toBe(false);
    await expect.poll(() => memory.used).toBe(0);
    expect(await decode("gzip", gzipSync("xyz"), memory)).toEqual({ failed: false, bytes: 3 });
  });

  test("is shared: a client uses at most as much as remains free for others", () => {
    const memory = new DecoderMemory(100);
    expect([memory.resize(0, 50, "a"), memory.resize(0, 1, "a")]).toEqual([true, false]);
    expect([memory.resize(0, 25, "b"), memory.resize(0, 1, "b")]).toEqual([true, false]);
    expect(memory.resize(50, 0, "a")).toBe(true);
    expect(memory.resize(0, 25, "b")).toBe(true);
    expect([memory.resize(25, 0, "b"), memory.resize(25, 0, "b"), memory.used]).toEqual([true, true, 0]);
  });

  test("never exceeds its bound", async () => {
    const most = 24 * mib;
    let highest = 0;
    class Watched extends DecoderMemory {
      override resize(current: number, needed: number): boolean {
        const isHeld = super.resize(current, needed);
        highest = Math.max(highest, this.used);
        return isHeld;
      }
    }
    const memory = new Watched(most);
    await Promise.all(bombs.flatMap(([encoding, bomb]) => [1, 2, 3].map(() => decode(encoding, bomb, memory))));
    expect(highest).toBeLessThanOrEqual(most);
    expect(highest).toBeGreaterThan(most / 2);
  });
});
