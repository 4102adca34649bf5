import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { UsageOutcome } from "../ir/usage.ts";
import { maxMessageBytes } from "./event-stream.ts";
import { bedrockEvent, eventStreamMessage } from "./testing/event-stream-message.ts";
import { recordedEventStreams } from "./testing/responses.ts";
import { createUsageReader, type Ending, type ResponseHead } from "./usage-reader.ts";

const binaryEvents = { status: 200, contentType: "application/vnd.amazon.eventstream" };

/** Reads a plain response, whose outcome must be known when `end` returns. */
function read(head: ResponseHead, chunks: readonly (string | Uint8Array)[], ending: Ending = "whole") {
  const reader = createUsageReader(head);
  for (const chunk of chunks) reader.push(Buffer.from(chunk));
  const outcomes: UsageOutcome[] = [];
  reader.end(ending, (outcome) => outcomes.push(outcome));
  return outcomes[0];
}

function chunksOf(bytes: Buffer, size: number): readonly Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

describe.each(recordedEventStreams)("with a stream of $name", ({ body, usage: expected }) => {
  const head = { ...binaryEvents, requestBytes: 400 };
  const outcome = { kind: "counted", usage: expected };

  test("reads its usage, cut in two at each byte", () => {
    for (let at = 0; at <= body.length; at++) {
      expect(read(head, [body.subarray(0, at), body.subarray(at)])).toEqual(outcome);
    }
  });

  test("reads its usage byte by byte", () => {
    expect(read(head, chunksOf(body, 1))).toEqual(outcome);
  });

  test("reads its usage from a compressed stream", async () => {
    const reader = createUsageReader({ ...head, contentEncoding: "gzip" });
    reader.push(gzipSync(body));
    expect(await new Promise((resolve) => reader.end("whole", resolve))).toEqual(outcome);
  });

  test("counts at least its input wherever it ends early", () => {
    for (let end = 1; end < body.length; end++) {
      const cut = read(head, [body.subarray(0, end)], "cutShort");
      const total = cut?.kind === "counted" ? cut.usage.total : 0;
      // The estimate of the input is 100.
      expect(total).toBeGreaterThan(Math.min(100, expected.input ?? 0));
    }
  });

  test("counts no less when any byte is wrong", () => {
    for (let at = 0; at < body.length; at++) {
      const wrong = Buffer.from(body);
      wrong[at] = (wrong[at] ?? 0) ^ 0x20;
      const found = read(head, [wrong]);
      expect(found).toMatchObject({ kind: "counted", usage: { estimated: true } });
      expect(found?.kind === "counted" ? found.usage.total : 0).toBeGreaterThanOrEqual(100);
    }
  });
});

test("reads no usage from an exception in a stream", () => {
  const headers = { ":exception-type": "throttlingException", ":message-type": "exception" };
  const exception = eventStreamMessage(headers, JSON.stringify({ usage: { totalTokens: 5 }, message: "slow down" }));
  expect(read({ ...binaryEvents, requestBytes: 400 }, [exception])).toMatchObject({
    kind: "counted",
    usage: { input: 100, estimated: true },
  });
});

test("estimates the text of a message that is too long to keep, and reads the messages after it", () => {
  const long = bedrockEvent("contentBlockDelta", { delta: { text: "x".repeat(2 * maxMessageBytes) } });
  const metadata = bedrockEvent("metadata", { usage: { inputTokens: 5, outputTokens: 3, totalTokens: 8 } });
  expect(read({ ...binaryEvents, requestBytes: 4 }, chunksOf(Buffer.concat([long, metadata]), 9_999))).toMatchObject({
    kind: "counted",
    usage: { estimated: true, output: expect.closeTo(maxMessageBytes / 2, -3) as number },
  });
  const report = bedrockEvent("metadata", { usage: { inputTokens: 5, outputTokens: 99_000, totalTokens: 99_005 } });
  expect(read({ ...binaryEvents, requestBytes: 4 }, [long, report])).toMatchObject({
    kind: "counted",
    usage: { estimated: false, total: 99_005 },
  });
});
