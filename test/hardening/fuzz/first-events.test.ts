/** Where a stream of a provider begins, and with which error, does not depend on how the network splits it. */
import fc from "fast-check";
import { expect } from "vitest";
import { eventStreamMessage } from "../../../proxy/src/llm/testing/event-stream-message.ts";
import { FirstEvent } from "../../../proxy/src/pipeline/attempts/first-event.ts";
import { chunkSizes, cut, mutated } from "../support/arbitraries.ts";
import { fuzz } from "../support/fuzz.ts";

const types = { events: "text/event-stream", messages: "application/vnd.amazon.eventstream" };

const events = [
  'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
  'data: {"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}}\r\n\r\n',
  ': wait\n\ndata: {"choices":[]}\n\ndata: {"error":{}}\n\n',
  '\xef\xbb\xbfdata: [{"error":\rdata: {"code":503}}]\r\r',
];
const exception = eventStreamMessage({ ":message-type": "exception", ":exception-type": "throttlingException" }, "{}");
const event = eventStreamMessage({ ":message-type": "event" }, "{}");
const messages = [Buffer.concat([exception, event]), Buffer.concat([event, exception])].map((bytes) =>
  bytes.toString("latin1"),
);
const words = ["data:", "event: error", "\n\n", "\r", ":", '{"error":', "null", "\xef", "\0\0\0\0", "\0\0\0\x10"];

/** Whether the stream has begun, and the error with which it does. */
function read(type: keyof typeof types, chunks: readonly Buffer[]) {
  const first = new FirstEvent(["content-type", types[type]]);
  const read: Buffer[] = [];
  const hasBegun = chunks.some((chunk) => {
    read.push(chunk);
    return first.push(chunk);
  });
  return { hasBegun, isMissing: first.isMissing, error: first.errorIn(Buffer.concat(read)) };
}

fuzz("first-events", {
  arbitrary: fc.record({
    type: fc.constantFrom<keyof typeof types>("events", "events", "messages"),
    body: mutated([...events, ...messages], words),
    sizes: chunkSizes,
  }),
  check({ type, body, sizes }) {
    const bytes = Buffer.from(body, "latin1");
    const whole = read(type, [bytes]);
    expect(read(type, cut(bytes, sizes))).toEqual(whole);
    if (whole.error === undefined) return;
    const { status, resetMs = 0 } = whole.error;
    expect(status >= 400 && status <= 599 && Number.isFinite(resetMs) && resetMs >= 0).toBe(true);
  },
});
