import { describe, expect, test } from "vitest";
import { FirstEvent } from "./first-event.ts";

const events = ["content-type", "text/event-stream; charset=utf-8"];
const messages = ["content-type", "application/vnd.amazon.eventstream"];

/** The number of bytes after which the first event is complete; undefined if it never is. */
function completeAfter(headers: readonly string[], bytes: Buffer, pieceBytes: number): number | undefined {
  const reader = new FirstEvent(headers);
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    if (reader.push(bytes.subarray(at, at + pieceBytes))) return at + pieceBytes;
  }
  return undefined;
}

describe("server-sent events", () => {
  test.each([
    ["an event", "data: x\n\n", 9],
    ["an event without a blank", "data:x\n\n", 8],
    ["an event with CRLF", "data: x\r\n\r\n", 10],
    ["an event with CR", "data: x\r\r", 9],
    ["an event with other fields before its data", "event: ping\nid: 1\ndata: x\n\n", 27],
    ["an event behind comments", ": wait\n\n: wait\n\ndata: x\n\n", 25],
    ["an event behind a byte order mark", "\uFEFFdata: x\n\n", 12],
    ["an event with empty data", "data\n\n", 6],
  ])("begin with %s, however it is cut", (_, text, complete) => {
    const bytes = Buffer.from(`${text}data: more\n\n`);
    expect(completeAfter(events, bytes, 1)).toBe(complete);
    for (let pieceBytes = 2; pieceBytes <= bytes.length; pieceBytes++) {
      const after = completeAfter(events, bytes, pieceBytes);
      expect(after).toBe(Math.ceil(complete / pieceBytes) * pieceBytes);
    }
  });

  test.each([
    ["nothing", ""],
    ["comments", ": a\n\n: b\n\n"],
    ["an event without data", "event: ping\n\n"],
    ["another field that begins like data", "database: x\n\n"],
    ["data in a comment", ":data: x\n\n"],
  ])("have not begun with %s", (_, text) => {
    const reader = new FirstEvent(events);
    expect(reader.push(Buffer.from(text))).toBe(false);
    expect(reader.isMissing).toBe(true);
  });

  test("have begun if they end within their first event", () => {
    const reader = new FirstEvent(events);
    expect(reader.push(Buffer.from("data: x\n"))).toBe(false);
    expect(reader.isMissing).toBe(false);
  });
});

test("messages of Amazon begin with the first whole one, however it is cut", () => {
  const message = Buffer.alloc(24);
  message.writeUInt32BE(20);
  for (let pieceBytes = 1; pieceBytes <= message.length; pieceBytes++) {
    expect(completeAfter(messages, message, pieceBytes)).toBe(Math.ceil(20 / pieceBytes) * pieceBytes);
  }
  const reader = new FirstEvent(messages);
  reader.push(message.subarray(0, 19));
  expect(reader.isMissing).toBe(true);
});

test.each([
  ["JSON", ["content-type", "application/json"]],
  ["a compressed stream", [...events, "content-encoding", "gzip"]],
  ["a response without a type", []],
])("%s begins with its first byte, and may be empty", (_, headers) => {
  expect(completeAfter(headers, Buffer.from("x"), 1)).toBe(1);
  expect(new FirstEvent(headers).isMissing).toBe(false);
});
