/**
 * Random streams of completions: the reported usage is charged if there is one, else an estimate. The bytes that
 * clients receive depend only on the stream and `usageChunk`, not on the segments.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { UsageChunk } from "../ir/usage.ts";
import { chatUsageChunk, dataEvent, done } from "./testing/responses.ts";
import { UsageEventFilter } from "./usage-event-filter.ts";
import { createUsageReader } from "./usage-reader.ts";
import type { UsageOutcome } from "../ir/usage.ts";

const requestBytes = 400;

/** One event, as data without a usage. */
type Piece =
  | { readonly kind: "chunk"; readonly choices: readonly (string | null)[]; readonly content: string }
  | { readonly kind: "raw"; readonly text: string };

interface Stream {
  readonly pieces: readonly Piece[];
  /** The usage event for `include_usage`, after the pieces; undefined: the provider does not support the option. */
  readonly usage: object | undefined;
  readonly isDone: boolean;
}

const finish = fc.constantFrom("stop", "tool_calls", "length");
const content = fc.string({ unit: "binary", maxLength: 20 });
const chunks: fc.Arbitrary<Piece> = fc.record({
  kind: fc.constant("chunk" as const),
  choices: fc.array(fc.option(finish, { freq: 3 }), { minLength: 1, maxLength: 3 }),
  content,
});
const raws: fc.Arbitrary<Piece> = fc.record({
  kind: fc.constant("raw" as const),
  text: fc.constantFrom(": keep-alive\n\n", "event: ping\ndata: {}\n\n", dataEvent({ choices: [], x: 1 })),
});
const streams: fc.Arbitrary<Stream> = fc.record({
  pieces: fc.array(fc.oneof({ weight: 4, arbitrary: chunks }, { weight: 1, arbitrary: raws }), { maxLength: 8 }),
  usage: fc.option(
    fc.record({
      prompt_tokens: fc.nat(999),
      completion_tokens: fc.nat(999),
      total_tokens: fc.integer({ min: 1, max: 2_000 }),
    }),
    { nil: undefined },
  ),
  isDone: fc.boolean(),
});

/** The text of a piece; `more`: members after its choices. */
function sent(piece: Piece, more: object): string {
  if (piece.kind === "raw") return piece.text;
  const choices = piece.choices.map((finish_reason, index) => ({
    index,
    delta: { content: piece.content },
    finish_reason,
  }));
  return dataEvent({ id: "c", object: "chat.completion.chunk", choices, ...more });
}

function providerSends({ pieces, usage, isDone }: Stream): string {
  const events = pieces.map((piece) => sent(piece, usage === undefined ? {} : { usage: null }));
  return events.join("") + (usage === undefined ? "" : chatUsageChunk(usage)) + (isDone ? done : "");
}

/** The reference for the bytes that the client receives. */
function clientReceives(stream: Stream, mode: UsageChunk): string {
  const { pieces, usage, isDone } = stream;
  if (mode === "Pass") return providerSends(stream);
  const end = isDone ? done : "";
  if (usage === undefined || mode === "Hide") return pieces.map((piece) => sent(piece, {})).join("") + end;
  // The last event with data receives the usage if it has a finish reason.
  const last = pieces.findLastIndex((piece) => piece.kind === "chunk" || piece.text.includes("data:"));
  const piece = pieces[last];
  const waits = piece?.kind === "chunk" && piece.choices.some((reason) => reason !== null);
  const events = pieces.map((each, at) => sent(each, waits && at === last ? { usage } : {}));
  const extra = JSON.parse(chatUsageChunk(usage).slice("data: ".length)) as object;
  const choice = { index: 0, delta: {}, finish_reason: null };
  return events.join("") + (waits ? "" : dataEvent({ ...extra, choices: [choice] })) + end;
}

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const segments: Buffer[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    segments.push(bytes.subarray(at, at + size));
    at += size;
  }
  return segments;
}

test("the usage or an estimate is charged, and clients receive the stream according to usageChunk", () => {
  const modes = fc.constantFrom<UsageChunk>("Merge", "Pass", "Hide");
  const sizes = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 5 });
  const ends = fc.constantFrom("\n", "\r\n", "\r");
  fc.assert(
    fc.property(streams, modes, sizes, ends, (stream, mode, segmentSizes, end) => {
      const bytes = Buffer.from(providerSends(stream).replaceAll("\n", end));
      const reader = createUsageReader({ status: 200, contentType: "text/event-stream", requestBytes });
      const filter = mode === "Pass" ? undefined : new UsageEventFilter(mode);
      const seen: Buffer[] = [];
      for (const segment of cut(bytes, segmentSizes)) {
        reader.push(segment);
        seen.push(filter === undefined ? segment : filter.push(segment));
      }
      if (filter !== undefined) seen.push(filter.end());
      expect(Buffer.concat(seen).toString()).toBe(
        Buffer.from(clientReceives(stream, mode).replaceAll("\n", end)).toString(),
      );

      const outcomes: UsageOutcome[] = [];
      reader.end("whole", (outcome) => outcomes.push(outcome));
      const [outcome] = outcomes;
      expect(outcome?.kind).toBe("counted");
      if (outcome?.kind !== "counted") return;
      const written = stream.pieces.flatMap((piece) =>
        piece.kind === "chunk" ? piece.choices.map(() => piece.content) : [],
      );
      if (stream.usage !== undefined) {
        expect(outcome.usage).toMatchObject({
          estimated: false,
          total: (stream.usage as { total_tokens: number }).total_tokens,
        });
      } else {
        expect(outcome.usage).toMatchObject({ estimated: true, input: requestBytes / 4 });
        expect(outcome.usage.output).toBeGreaterThanOrEqual(Math.floor(Buffer.byteLength(written.join("")) / 4));
      }
    }),
    { numRuns: 300 },
  );
});
