/** Sequences of HTTP/2 frames for fuzzers, most of them nearly valid. */
import fc from "fast-check";
import { type Frame, frame, frameType, literalBlock } from "../../support/raw-http2.ts";
import type { KnownBlock, Role } from "./http2-rules.ts";

/** A frame as JSON, with its payload in latin1. */
export type FrameCase = {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: string;
};

const head = (...fields: readonly (readonly [string, string])[]): Buffer => literalBlock(fields);
const get = [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "a"],
] as const;

/** Header blocks that no decoder accepts (RFC 7541 §2.3.3, §5.2, §6.1). */
const invalidBlocks = [
  "\x80",
  "\xff\xff\xff\xff\x0f",
  "\xbe",
  "\x00\x05a",
  "\x00\x81\xff\x01a",
  "\x3f\xff\xff\xff\xff\x0f",
];

const shared: readonly KnownBlock[] = [
  { kind: "trailers", fields: head(["x-sum", "1"]) },
  { kind: "trailers", fields: Buffer.alloc(0) },
  ...["content-length", "host", "connection", "X-Upper", "te"].map(
    (name): KnownBlock => ({ kind: "malformed", fields: head([name, "1"]) }),
  ),
  ...invalidBlocks.map((text): KnownBlock => ({ kind: "invalid", fields: Buffer.from(text, "latin1") })),
];

const blocksOfRequests: readonly KnownBlock[] = [
  { kind: "head", fields: head(...get) },
  { kind: "head", fields: head(...get, ["content-length", "5"]), contentLength: 5 },
  { kind: "head", fields: head(...get, ["content-length", "0"]), contentLength: 0 },
  { kind: "malformed", fields: head(...get.slice(1)) },
  { kind: "malformed", fields: head(...get, ["connection", "close"]) },
  { kind: "malformed", fields: head(...get, ["transfer-encoding", "chunked"]) },
  { kind: "malformed", fields: head(...get, ["content-length", "5"], ["content-length", "5"]) },
  { kind: "malformed", fields: head(...get, [":path", "/b"]) },
  { kind: "malformed", fields: head(["x-a", "1"], ...get) },
  { kind: "malformed", fields: head(...get, ["x-a", "1\r\nx-b: 2"]) },
  { kind: "malformed", fields: head(...get, [":status", "200"]) },
  ...shared,
];

const blocksOfResponses: readonly KnownBlock[] = [
  { kind: "head", fields: head([":status", "200"]) },
  { kind: "head", fields: head([":status", "200"], ["content-length", "5"]), contentLength: 5 },
  { kind: "head", fields: head([":status", "204"]), isBodiless: true },
  { kind: "head", fields: head([":status", "304"], ["content-length", "5"]), isBodiless: true },
  { kind: "interim", fields: head([":status", "103"], ["link", "a"]) },
  { kind: "malformed", fields: head([":status", "101"]) },
  { kind: "malformed", fields: head([":status", "20"]) },
  { kind: "malformed", fields: head([":status", "200"], ["connection", "close"]) },
  { kind: "malformed", fields: head([":status", "200"], ["content-length", "5"], ["content-length", "6"]) },
  { kind: "malformed", fields: head([":status", "200"], [":status", "200"]) },
  { kind: "malformed", fields: head(["x-a", "1"], [":status", "200"]) },
  { kind: "malformed", fields: head([":status", "200"], ["x-a", "1\nb"]) },
  ...shared,
];

/** The header blocks that the receiver of the frames can get. */
export function knownBlocks(role: Role): readonly KnownBlock[] {
  return role === "server" ? blocksOfRequests : blocksOfResponses;
}

const settingsPayloads = [
  ...["", "\0", "\0\x03\0\0\0\x01", "\0\x02\0\0\0\x01", "\0\x02\0\0\0\x02", "\0\x04\0\0\0\0", "\0\x04\x7f\xff\xff\xff"],
  ...[
    "\0\x04\x80\0\0\0",
    "\0\x05\0\0\x40\0",
    "\0\x05\0\0\x3f\xff",
    "\0\x05\x01\0\0\0",
    "\0\x01\0\0\0\0",
    "\0\x08\0\0\0\x02",
  ],
  ...["\xff\xff\0\0\0\x01", "\0\x06\0\0\0\x01", "\0\x04\0\0\0\x01\0\x04\0\x01\0\0"],
];
const fourBytes = ["\0\0\0\x01", "\0\0\0\0", "\x7f\xff\xff\xff", "\x80\0\0\x05", "\0\0\x40\0", "\0\0\0", "\0\0\0\0\0"];

function frameOf(role: Role): fc.Arbitrary<readonly FrameCase[]> {
  const stream = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(1, 3, 5) },
    { weight: 1, arbitrary: fc.constantFrom(0, 2, 4, 7, 9, 2 ** 31 - 1) },
  );
  const flags = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(0, 1, 4, 5) },
    { weight: 1, arbitrary: fc.constantFrom(8, 0x20, 0x2d, 0xff, 2) },
  );
  const one = (type: number, payloads: readonly string[], streams = stream): fc.Arbitrary<readonly FrameCase[]> =>
    fc
      .record({ type: fc.constant(type), flags, stream: streams, payload: fc.constantFrom(...payloads) })
      .map((each) => [each]);
  const texts = knownBlocks(role).map(({ fields }) => fields.toString("latin1"));
  const [valid = ""] = texts;
  const most = fc.oneof({ weight: 12, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) });
  const { data, headers, rstStream, settings, ping, goaway, windowUpdate, continuation } = frameType;
  /** A block in two frames. */
  const split = fc
    .record({ stream, text: fc.constantFrom(...texts), part: fc.nat(20), flags, more: fc.constantFrom(0, 4, 4, 4) })
    .map(({ stream: id, text, part, flags: first, more }) => [
      { type: headers, flags: first & ~4, stream: id, payload: text.slice(0, part) },
      { type: continuation, flags: more, stream: id, payload: text.slice(part) },
    ]);
  const message = fc
    .record({ stream, text: fc.constantFrom(...texts.slice(0, 4)), bytes: fc.constantFrom("", "hello", "he") })
    .map(({ stream: id, text, bytes }) => [
      { type: headers, flags: 4, stream: id, payload: text },
      { type: data, flags: 1, stream: id, payload: bytes },
    ]);
  return fc.oneof(
    { weight: 6, arbitrary: one(headers, [valid, valid, valid, ...texts, "\x03abc", "\xff", `\x01${valid}\0`]) },
    {
      weight: 6,
      arbitrary: one(data, ["hello", "he", "", "\0", "\x01a\0", "\xffa", "x".repeat(16_384), "x".repeat(16_385)]),
    },
    { weight: 3, arbitrary: message },
    { weight: 3, arbitrary: split },
    { weight: 1, arbitrary: one(continuation, texts) },
    { weight: 1, arbitrary: one(2, ["\0\0\0\0\x01", "\0\0\0\x01\x01", "\0", ""]) },
    { weight: 2, arbitrary: one(rstStream, ["\0\0\0\x08", "\0\0\0\x07", "\0\0\0", ""]) },
    { weight: 2, arbitrary: one(settings, settingsPayloads, most) },
    { weight: 1, arbitrary: one(5, [`\0\0\0\x02${valid}`, ""]) },
    { weight: 1, arbitrary: one(ping, ["12345678", "1234567", "123456789", ""], most) },
    { weight: 1, arbitrary: one(goaway, ["\0\0\0\0\0\0\0\0", "\0\0\0\x05\0\0\0\0", "\0\0\0\0\0\0\0", ""], most) },
    { weight: 2, arbitrary: one(windowUpdate, fourBytes, fc.constantFrom(0, 1, 1, 3, 5, 2)) },
    { weight: 1, arbitrary: one(42, ["", "anything"]) },
  );
}

/** Up to 14 frames that a side of a connection receives after the preface and the first SETTINGS. */
export function frameSequences(role: Role): fc.Arbitrary<readonly FrameCase[]> {
  return fc.array(frameOf(role), { minLength: 1, maxLength: 10 }).map((groups) => groups.flat());
}

/** The frames of a case. */
export function framesIn(cases: readonly FrameCase[]): readonly Frame[] {
  return cases.map(({ payload, ...rest }) => ({ ...rest, payload: Buffer.from(payload, "latin1") }));
}

/** The bytes of frames. */
export function bytesOf(frames: readonly Frame[]): Buffer {
  return Buffer.concat(frames.map(({ type, flags, stream, payload }) => frame(type, flags, stream, payload)));
}
