/** HTTP/2 frames from which fuzzers start, in latin1. */
import { endHeaders, endStream, frame, frameType, rootRequest } from "../../support/raw-http2.ts";

/** A frame in latin1. */
export function frameText(...args: Parameters<typeof frame>): string {
  return frame(...args).toString("latin1");
}

const { data, headers, rstStream, settings, ping, goaway, windowUpdate, continuation } = frameType;

/** HPACK's `:status 200` (RFC 7541 §A). */
export const okHead = Buffer.from([0x88]);

const eight = Buffer.from("12345678");
const more = Buffer.from([0, 0, 4, 0]);

/** Frames that a client may send after the preface. */
export const clientFrames: readonly string[] = [
  frameText(headers, endHeaders | endStream, 1, rootRequest) +
    frameText(headers, endHeaders | endStream, 3, rootRequest),
  frameText(headers, endHeaders, 1, rootRequest) + frameText(data, endStream, 1, Buffer.from("hello")),
  frameText(headers, endStream, 1, rootRequest.subarray(0, 2)) +
    frameText(continuation, endHeaders, 1, rootRequest.subarray(2)),
  frameText(settings, 1, 0) + frameText(headers, endHeaders, 1, rootRequest) + frameText(rstStream, 0, 1, more),
  frameText(ping, 0, 0, eight) + frameText(windowUpdate, 0, 0, more) + frameText(goaway, 0, 0, eight),
];

/** Frames that a server may send as the response on stream 1, after its settings. */
export const serverFrames: readonly string[] = [
  frameText(headers, endHeaders, 1, okHead) + frameText(data, endStream, 1, Buffer.from("hello")),
  frameText(headers, endHeaders | endStream, 1, okHead),
  frameText(settings, 1, 0) +
    frameText(headers, endHeaders, 1, Buffer.from([0x08, 3, 0x31, 0x30, 0x33])) +
    frameText(headers, endHeaders, 1, okHead) +
    frameText(data, 0, 1, Buffer.from("x")) +
    frameText(rstStream, 0, 1, more),
  frameText(headers, endHeaders, 1, okHead) + frameText(goaway, 0, 0, eight) + frameText(data, endStream, 1),
];

/** Bytes that edits insert: heads of frames, sizes, flags, header blocks. */
export const http2Tokens: readonly string[] = [
  ...Object.values(frameType).map((type) => frameText(type, 0, 1, more)),
  ...Object.values(frameType).map((type) => frameText(type, 0xff, 0)),
  ...[5, 2, 42].map((type) => frameText(type, endHeaders, 1, rootRequest)),
  ...["\0", "\xff", "\xff\xff\xff", "\x7f\xff\xff\xff", "\0\0\0\0", "\0\x40\x01"],
  // Static and dynamic table references, table sizes, Huffman strings (RFC 7541 §6).
  ...[
    "\x82",
    "\xbe",
    "\xff\xff\xff\xff\x0f",
    "\x3f\xe1\x1f",
    "\x20",
    "\x00\x01:\x01x",
    "\x40\x8f\xff",
    "\x10\x04host\x01a",
  ],
];
