/**
 * The usage of a realtime session does not depend on how the network splits its frames, whatever bytes they contain.
 */
import fc from "fast-check";
import { expect } from "vitest";
import type { TokenUsage } from "../../../proxy/src/ir/usage.ts";
import { RealtimeInput, RealtimeUsage } from "../../../proxy/src/llm/realtime-usage.ts";
import { closeFrame, WebSocketFrames } from "../../../proxy/src/llm/web-socket-frames.ts";
import { chunkSizes, cut, mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";

/** A text frame in latin1. @param first its first byte. */
function frame(payload: string, first = 0x81): string {
  const { length } = payload;
  const head = length < 126 ? [first, length] : [first, 126, length >> 8, length & 0xff];
  return Buffer.from(head).toString("latin1") + payload;
}

const usage = '"usage":{"input_tokens":5,"output_tokens":7,"total_tokens":12}';
const done = `{"type":"response.done","response":{"output":["${"x".repeat(130)}"],${usage}}}`;
const events = [
  '{"type":"session.created","session":{"model":"gpt-realtime"}}',
  '{"type":"response.created","response":{"usage":null}}',
  '{"type":"response.output_audio.delta","delta":"AAAA"}',
  `{"type":"conversation.item.input_audio_transcription.completed",${usage}}`,
];
const session = [...events, done].map((event) => frame(event)).join("");
const inParts = [frame(done.slice(0, 40), 0x01), frame("ping", 0x89), frame(done.slice(40), 0x80)].join("");

/** The charges, the ends of frames, and the state at the end. */
function read(chunks: readonly Buffer[], from: "client" | "server") {
  const charged: TokenUsage[] = [];
  const input = new RealtimeInput();
  const events = new RealtimeUsage(input, (each) => void charged.push(each));
  const frames = new WebSocketFrames(from === "client" ? input : events, from);
  const ends = new Set<number>();
  let before = 0;
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      at = frames.read(chunk, at);
      if (frames.isAtBoundary && !frames.isMalformed) ends.add(before + at);
    }
    before += chunk.length;
  }
  const { hasOpenResponse } = events;
  events.end();
  const { isMalformed, isClosing } = frames;
  return { charged, hasOpenResponse, isMalformed, isClosing, ends: [...ends], input: input.tokens };
}

fuzz("realtime-usage", {
  arbitrary: fc.record({
    from: fc.constantFrom<"client" | "server">("server", "server", "client"),
    body: mutated(
      [
        session,
        inParts,
        closeFrame(1000, "bye", false).toString("latin1"),
        closeFrame(1000, "", true).toString("latin1"),
      ],
      [frame("{}"), frame(""), frame("", 0x89), usage, '"type":', "\x81\x7e", "\x81\x7f\0\0\0\0", "\x80", "\x01\x85"],
    ),
    sizes: chunkSizes,
  }),
  check({ from, body, sizes }) {
    const bytes = Buffer.from(body, "latin1");
    const whole = read([bytes], from);
    expect(read(cut(bytes, sizes), from)).toEqual(whole);
    for (const { total } of whole.charged) expect(Number.isSafeInteger(total) && total > 0).toBe(true);
  },
});
