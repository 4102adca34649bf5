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
