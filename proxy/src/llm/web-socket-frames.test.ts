import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { closeFrame, WebSocketFrames } from "./web-socket-frames.ts";

interface Frame {
  readonly opcode: number;
  readonly isFinal: boolean;
  readonly payload: Buffer;
}

/** Encodes a frame (RFC 6455 §5.2). @param key masks it. */
function frameOf({ opcode, isFinal, payload }: Frame, key?: Buffer): Buffer {
  const { length } = payload;
  const mask = key === undefined ? 0 : 0x80;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = (isFinal ? 0x80 : 0) | opcode;
  head[1] = mask | (length < 126 ? length : length < 65_536 ? 126 : 127);
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  if (key === undefined) return Buffer.concat([head, payload]);
  return Buffer.concat([head, key, payload.map((byte, at) => byte ^ (key[at % 4] ?? 0))]);
}

/** Reads chunks as a session does. */
function read(chunks: readonly Buffer[], from: "client" | "server" = "server") {
  const messages: Buffer[] = [];
  let parts: Buffer[] = [];
  const sink = {
    onPayload: (part: Buffer) => void parts.push(Buffer.from(part)),
    onMessageEnd() {
      messages.push(Buffer.concat(parts));
      parts = [];
    },
  };
  const frames = new WebSocketFrames(sink, from);
  const boundaries: number[] = [];
  let passed = 0;
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      at = frames.read(chunk, at);
      if (frames.isAtBoundary && !frames.isMalformed) boundaries.push(passed + at);
    }
    passed += chunk.length;
  }
  return { messages: messages.map(String), boundaries, frames };
}

const payload = fc.oneof(
  fc.constantFrom(0, 1, 125, 126, 127, 65_535, 65_536).map((length) => Buffer.alloc(length, "a")),
  fc.string({ maxLength: 40 }).map((text) => Buffer.from(text)),
);
const control = fc.record({
  opcode: fc.constantFrom(0x9, 0xa),
  isFinal: fc.constant(true),
  payload: fc.string({ maxLength: 20 }).map((text) => Buffer.from(text)),
});
/** A message in parts, with control frames between them. */
const message = fc
  .tuple(fc.array(payload, { minLength: 1, maxLength: 3 }), fc.array(control, { maxLength: 3 }), fc.constantFrom(1, 2))
  .map(([parts, controls, opcode]) => ({
    text: Buffer.concat(parts).toString(),
    frames: parts.flatMap((part, at): Frame[] => [
      { opcode: at === 0 ? opcode : 0, isFinal: at === parts.length - 1, payload: part },
      ...controls.slice(at, at + 1),
    ]),
  }));

/** Cuts bytes at the positions, modulo their length. */
function cut(bytes: Buffer, positions: readonly number[]): readonly Buffer[] {
  const ends = [...positions.map((position) => position % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end));
}

test.each(["server", "client"] as const)("messages of a %s are found, however their bytes are cut", (from) => {
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 4 }),
      fc.array(fc.nat(200_000), { maxLength: 6 }),
      fc.uint8Array({ minLength: 4, maxLength: 4 }),
      (messages, positions, key) => {
        const mask = from === "client" ? Buffer.from(key) : undefined;
        const encoded = messages.flatMap(({ frames }) => frames).map((frame) => frameOf(frame, mask));
        const found = read(cut(Buffer.concat(encoded), positions), from);
        expect(found.messages).toEqual(messages.map(({ text }) => text));
        const ends = encoded.map((_, at) => Buffer.concat(encoded.slice(0, at + 1)).length);
        expect([...new Set(found.boundaries)]).toEqual(ends);
      },
    ),
  );
});

test("every cut of a short session gives the same messages", () => {
  const bytes = Buffer.concat([
    frameOf({ opcode: 1, isFinal: false, payload: Buffer.from("ab") }),
    frameOf({ opcode: 9, isFinal: true, payload: Buffer.from("ping") }),
    frameOf({ opcode: 0, isFinal: true, payload: Buffer.alloc(130, "c") }),
    frameOf({ opcode: 2, isFinal: true, payload: Buffer.alloc(0) }),
    closeFrame(1000, "bye", false),
  ]);
  for (let at = 0; at <= bytes.length; at++) {
    const { messages, frames } = read(cut(bytes, [at]));
    expect([messages, frames.isClosing]).toEqual([[`ab${"c".repeat(130)}`, ""], true]);
  }
});

describe("bytes are malformed", () => {
  const hello = Buffer.from("hello");
  test.each<readonly [string, Buffer, "client" | "server"]>([
    ["of a reserved opcode", frameOf({ opcode: 3, isFinal: true, payload: hello }), "server"],
    ["of a reserved control opcode", frameOf({ opcode: 0xb, isFinal: true, payload: hello }), "server"],
    ["with a compressed message", Buffer.from([0xc1, 5, ...hello]), "server"],
    ["with a mask of a server", frameOf({ opcode: 1, isFinal: true, payload: hello }, Buffer.alloc(4)), "server"],
    ["without a mask of a client", frameOf({ opcode: 1, isFinal: true, payload: hello }), "client"],
    ["that continue no message", frameOf({ opcode: 0, isFinal: true, payload: hello }), "server"],
    ["with a ping in parts", frameOf({ opcode: 9, isFinal: false, payload: hello }), "server"],
    ["with a long ping", frameOf({ opcode: 9, isFinal: true, payload: Buffer.alloc(126) }), "server"],
    ["with an impossible length", Buffer.from([0x81, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), "server"],
    [
      "with a message inside another",
      Buffer.concat([1, 1].map((opcode) => frameOf({ opcode, isFinal: false, payload: hello }))),
      "server",
    ],
  ])("%s", (_title, bytes, from) => {
    expect(read([bytes], from).frames.isMalformed).toBe(true);
  });

  test("and nothing after them is read", () => {
    const good = frameOf({ opcode: 1, isFinal: true, payload: hello });
    expect(read([Buffer.from([0xf0, 0]), good]).messages).toEqual([]);
  });
});

test("a close frame has its status and reason, and a mask for a server", () => {
  expect(closeFrame(1008, "no", false)).toEqual(Buffer.from([0x88, 4, 0x03, 0xf0, 0x6e, 0x6f]));
  expect(read([closeFrame(1008, "no", true)], "client").frames.isMalformed).toBe(false);
});
