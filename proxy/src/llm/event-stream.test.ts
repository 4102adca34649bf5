import { crc32 } from "node:zlib";
import { describe, expect, test } from "vitest";
import { type EventStreamMessage, EventStreamReader } from "./event-stream.ts";
import { eventStreamMessage } from "./testing/event-stream-message.ts";

function read(...chunks: readonly Buffer[]) {
  const messages: { headers: Record<string, string>; payload: string }[] = [];
  const reader = new EventStreamReader(({ headers, payload }: EventStreamMessage) => {
    messages.push({ headers: Object.fromEntries(headers), payload: payload.toString() });
  });
  for (const chunk of chunks) reader.push(chunk);
  return { messages, isMalformed: reader.isMalformed, unreadBytes: reader.unreadBytes };
}

/** The empty message of the specification, as the tests of Amazon's SDKs have it. */
const emptyMessage = Buffer.from("000000100000000005c248eb7d98c8ff", "hex");

describe("EventStreamReader", () => {
  test("reads the empty message", () => {
    expect(read(emptyMessage, emptyMessage)).toEqual({
      messages: [
        { headers: {}, payload: "" },
        { headers: {}, payload: "" },
      ],
      isMalformed: false,
      unreadBytes: 0,
    });
  });

  test("reads headers of every type, and returns those that are strings", () => {
    const value = (type: number, ...bytes: readonly number[]) => [1, 0x61 + type, type, ...bytes];
    const zeros = (count: number) => Array<number>(count).fill(0);
    const bytes = Buffer.from([
      ...[...value(0), ...value(1), ...value(2, 0), ...value(3, ...zeros(2)), ...value(4, ...zeros(4))],
      ...[...value(5, ...zeros(8)), ...value(6, 0, 2, 1, 2), ...value(8, ...zeros(8)), ...value(9, ...zeros(16))],
      ...value(7, 0, 3, 0x79, 0x65, 0x73),
    ]);
    expect(read(withHeaders(bytes))).toMatchObject({ messages: [{ headers: { h: "yes" }, payload: "{}" }] });
  });

  test.each([
    ["a type that does not exist", [1, 0x61, 10]],
    ["a name without a type", [4, 0x61]],
    ["a string without its length", [1, 0x61, 7, 0]],
    ["a string that is too short", [1, 0x61, 7, 0, 9, 0x61]],
    ["a number that is too short", [1, 0x61, 5, 0]],
  ])("does not read a message with %s in its headers", (_name, headers) => {
    expect(read(withHeaders(Buffer.from(headers)), emptyMessage)).toMatchObject({ messages: [], isMalformed: true });
  });

  test.each([
    ["the length", 3],
    ["the checksum of the lengths", 8],
    ["the headers", 13],
    ["the payload", 34],
    ["the checksum of the message", 36],
  ])("reads nothing after an error in %s", (_name, at) => {
    const message = eventStreamMessage({ ":event-type": "chunk" }, "{}");
    const wrong = Buffer.from(message);
    wrong[at] = (wrong[at] ?? 0) ^ 1;
    const { messages, isMalformed, unreadBytes } = read(message, wrong, message);
    expect({ messages: messages.length, isMalformed }).toEqual({ messages: 1, isMalformed: true });
    expect(unreadBytes).toBe(2 * message.length);
  });

  test.each([
    ["a total below the minimum", 15, 0],
    ["headers that exceed the message", 32, 17],
  ])("does not read %s", (_name, total, headers) => {
    const lengths = Buffer.alloc(8);
    lengths.writeUInt32BE(total, 0);
    lengths.writeUInt32BE(headers, 4);
    expect(read(withChecksum(lengths), emptyMessage)).toMatchObject({ messages: [], isMalformed: true });
  });
});

/** A message with these bytes as its headers, and the payload `{}`. */
function withHeaders(headers: Buffer): Buffer {
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(16 + headers.length + 2, 0);
  lengths.writeUInt32BE(headers.length, 4);
  return withChecksum(Buffer.concat([withChecksum(lengths), headers, Buffer.from("{}")]));
}

function withChecksum(bytes: Buffer): Buffer {
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(bytes), 0);
  return Buffer.concat([bytes, checksum]);
}
