import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { frameMessage, MessageReader, PartialBytes } from "./message-framing.ts";
import { GrpcError } from "./status.ts";

/** Returns the body in pieces that end at these positions. */
function cut(body: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...places.map((place) => place % (body.length + 1)), body.length].sort((a, b) => a - b);
  return ends.map((end, index) => body.subarray(ends[index - 1] ?? 0, end));
}

describe("MessageReader", () => {
  test("passes on the same messages for any chunks, and holds at most twice the received bytes", () => {
    const messages = fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 5 });
    fc.assert(
      fc.property(messages, fc.array(fc.nat(), { maxLength: 20 }), (sent, places) => {
        const partialBytes = new PartialBytes(1_000_000);
        const reader = new MessageReader({ maxMessageBytes: 3_000, partialBytes });
        const read: Buffer[] = [];
        let came = 0;
        for (const piece of cut(Buffer.concat(sent.map(frameMessage)), places)) {
          came += piece.length;
          reader.read(piece, (message) => read.push(Buffer.from(message)));
          const done = read.reduce((sum, message) => sum + message.length + 5, 0);
          expect(partialBytes.used).toBeGreaterThanOrEqual(came - done);
          expect(partialBytes.used).toBeLessThanOrEqual(came === done ? 0 : 2 * (came - done) + 768);
        }
        expect(read.map((message) => message.toString("hex"))).toEqual(
          sent.map((message) => Buffer.from(message).toString("hex")),
        );
        expect(reader.isWithinMessage).toBe(false);
        expect(partialBytes.used).toBe(0);
      }),
    );
  });

  test("collects a message that arrives byte by byte in one buffer", () => {
    const partialBytes = new PartialBytes(1_000_000);
    const reader = new MessageReader({ maxMessageBytes: 262_144, partialBytes });
    const framed = frameMessage(Buffer.alloc(262_144, "x"));
    const read: number[] = [];
    for (let at = 0; at < framed.length - 1; at++) reader.read(framed.subarray(at, at + 1), () => undefined);

    expect(partialBytes.used).toBeLessThan(2 * 262_144);
    reader.read(framed.subarray(-1), (message) => read.push(message.length));
    expect(read).toEqual([262_144]);
    expect(partialBytes.used).toBe(0);
  });

  test("counts the memory of buffers, not the received bytes, over all readers", () => {
    const partialBytes = new PartialBytes(10_000);
    const readers = Array.from({ length: 100 }, () => new MessageReader({ maxMessageBytes: 100, partialBytes }));
    let begun = 0;
    const begin = (): void => {
      for (const reader of readers) {
        reader.read(Buffer.from([0]), () => undefined);
        begun++;
      }
    };

    expect(begin).toThrow(GrpcError);
    expect(begun).toBe(Math.floor(10_000 / 768));
    for (const reader of readers) reader.release();
    expect(partialBytes.used).toBe(0);
  });
});
