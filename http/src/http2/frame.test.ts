import { describe, expect, test } from "vitest";
import { ConnectionError, FrameReader } from "./frame.ts";
import { rawFrame } from "./testing/raw-frame.ts";

describe("FrameReader", () => {
  test("finds the same frames for any chunks", () => {
    const bytes = Buffer.concat([rawFrame(0, 1, 1, "abc"), rawFrame(4, 0, 0), rawFrame(8, 0, 0x7fff_ffff, "four")]);
    for (let cut = 0; cut <= bytes.length; cut++) {
      for (let second = cut; second <= bytes.length; second++) {
        const frames: unknown[] = [];
        const reader = new FrameReader((type, flags, id, buffer, start, end) => {
          frames.push([type, flags, id, buffer.toString("latin1", start, end)]);
        });
        for (const part of [bytes.subarray(0, cut), bytes.subarray(cut, second), bytes.subarray(second)]) {
          reader.read(part);
        }
        expect(frames).toEqual([
          [0, 1, 1, "abc"],
          [4, 0, 0, ""],
          [8, 0, 0x7fff_ffff, "four"],
        ]);
      }
    }
  });

  test("keeps what follows a message that may not begin, for any chunks", () => {
    const frames = [
      rawFrame(1, 0, 1, "abc"),
      rawFrame(1, 4, 3, "de"),
      rawFrame(8, 0, 3, "f"),
      rawFrame(9, 4, 5, "ghi"),
    ];
    const bytes = Buffer.concat(frames);
    for (let cut = 0; cut <= bytes.length; cut++) {
      for (let second = cut; second <= bytes.length; second++) {
        const ids: number[] = [];
        let permitted = 0;
        const reader = new FrameReader(
          (_type, _flags, id) => ids.push(id),
          () => permitted-- > 0,
        );
        for (const part of [bytes.subarray(0, cut), bytes.subarray(cut, second), bytes.subarray(second)]) {
          reader.read(part);
        }
        const seen: unknown[] = [[...ids], reader.isHeld];
        for (let times = 0; times < 2; times++) {
          permitted = 1;
          reader.readHeld();
          seen.push([...ids], reader.isHeld);
        }
        expect(seen).toEqual([[1], true, [1, 3, 3], true, [1, 3, 3, 5], false]);
        expect(reader.heldBytes).toBe(0);
      }
    }
  });

  test.each([
    ["the end of a header block", rawFrame(1, 4, 1, Buffer.alloc(5_000)), true],
    ["the last part of a header block", rawFrame(9, 4, 1, ""), true],
    ["a header block that goes on", rawFrame(1, 0, 1, ""), false],
    ["the end of a body", rawFrame(0, 1, 1, Buffer.alloc(5_000)), true],
    ["a short part of a body", rawFrame(0, 0, 1, "a"), true],
    ["a long part of a body", rawFrame(0, 0, 1, Buffer.alloc(5_000)), false],
    ["a reset", rawFrame(3, 0, 1, "code"), false],
  ])("asks before %s: %s", (_, bytes, isHeld) => {
    const reader = new FrameReader(
      () => undefined,
      () => false,
    );
    reader.read(bytes);
    expect(reader.isHeld).toBe(isHeld);
    expect(reader.heldBytes).toBe(isHeld ? bytes.length : 0);
  });

  test("ignores the reserved bit of the stream identifier", () => {
    const frame = rawFrame(0, 0, 1);
    frame[5] = 0x80;
    const ids: number[] = [];
    new FrameReader((_type, _flags, id) => ids.push(id)).read(frame);

    expect(ids).toEqual([1]);
  });

  test("rejects a frame by its length, before its payload arrives", () => {
    const header = rawFrame(0, 0, 1, Buffer.alloc(16_385)).subarray(0, 9);

    expect(() => new FrameReader(() => undefined).read(header)).toThrow(ConnectionError);
  });
});
