/**
 * Reads what an LLM response has cost while it passes on its way to the client.
 *
 * Chunks are shown to the reader; it neither changes nor delays them, and keeps at most a few tens of KiB whatever the
 * size of the response. What it can read: a JSON body and a stream of server-sent events, plain or compressed, under any
 * content type or none, as servers label them as they like. What the figures mean is decided in `usage.ts`.
 */
import type { UsageOutcome } from "../ir/usage.ts";
import { type AskedOf, generatesNothing, readsStored } from "./charging.ts";
import { ContentDecoder, isIdentity } from "./content-decoder.ts";
import { tokensOfText } from "./estimate.ts";
import type { JsonMembers } from "./json-members.ts";
import { SseUsage } from "./sse-usage.ts";
import { openUsageScan } from "./usage-scan.ts";
import { UsageTally } from "./usage.ts";

/** What the reader must know of the response's head. */
export interface ResponseHead {
  readonly status: number;
  /** Values of the header fields; absent where the response has none. */
  readonly contentType?: string;
  readonly contentEncoding?: string;
  /** Bytes of the request's body, for an estimate of the input; absent: 0. */
  readonly requestBytes?: number;
  /** What was asked; absent: something that a model works for. */
  readonly asked?: AskedOf;
}

/** How the reading came to its end: with the end of the response, or before it. */
export type Ending = "whole" | "cutShort";

export interface UsageReader {
  /** Reads on. Keeps no reference to a plain chunk; one of a compressed response must not be written to afterwards. */
  push(chunk: Uint8Array): void;
  /**
   * Ends the reading; must be called once, after the last push, in every case. `done` is called once with the outcome:
   * before `end` returns for a plain response, from the event loop for a compressed one. Never throws.
   */
  end(ending: Ending, done: (outcome: UsageOutcome) => void): void;
}

/** Makes the reader of one response. */
export function createUsageReader(head: ResponseHead): UsageReader {
  const tally = new UsageTally();
  if (isOtherText(head.contentType)) tally.setIncomplete();
  const body = isStream(head.contentType) ? new SseUsage(tally) : new UnlabelledUsage(tally, isMedia(head.contentType));
  const conclude = (ending: Ending) => outcomeOf(head, tally, body, ending);
  const encoding = head.contentEncoding;
  return encoding === undefined || isIdentity(encoding)
    ? new PlainReader(body, conclude)
    : new DecodingReader(encoding, body, { conclude, estimate: (bytes) => estimateOfBlind(head, bytes) });
}

/** Whether a response may be a stream of events whose bytes can be read, and edited, as they are. */
export function mayBePlainEvents({ contentType, contentEncoding }: ResponseHead): boolean {
  if (contentEncoding !== undefined && !isIdentity(contentEncoding)) return false;
  return contentType === undefined || !/\bjson\b/i.test(contentType);
}

/** A response's body after its content coding. */
interface Body {
  push(chunk: Buffer): void;
  end(): void;
  /** About how many tokens a model has written; 0 where no text of a model has been found. */
  textTokens(): number;
  /** About how many tokens all of it has, where nothing is known of its form. */
  anyTokens(): number;
  /** Whether a stream has begun: a model is writing, though none of its text may have come. */
  readonly isStreaming: boolean;
}

/** A body that is not labelled as a stream: what it is shows in its first byte. */
class UnlabelledUsage implements Body {
  readonly #tally: UsageTally;
  readonly #isMedia: boolean;
  #body: Body | undefined;

  constructor(tally: UsageTally, isMedia: boolean) {
    this.#tally = tally;
    this.#isMedia = isMedia;
  }

  push(chunk: Buffer): void {
    const [first] = chunk;
    if (first === undefined) return;
    const begins = first === byteOrderMark ? chunk[3] : first;
    this.#body ??= begins !== undefined && beginsEvent(begins) ? new SseUsage(this.#tally) : new JsonUsage(this.#tally);
    this.#body.push(chunk);
  }

  end(): void {
    this.#body?.end();
  }

  textTokens(): number {
    return this.#body?.textTokens() ?? 0;
  }

  anyTokens(): number {
    return this.#isMedia ? 0 : (this.#body?.anyTokens() ?? 0);
  }

  get isStreaming(): boolean {
    return this.#body?.isStreaming ?? false;
  }
}

/** The first byte of U+FEFF, which may stand in front of a stream (WHATWG HTML §9.2.5). */
const byteOrderMark = 0xef;

/** Of `data`, `event`, `id`, `retry` or a comment, none of which begins an object in JSON. */
function beginsEvent(byte: number): boolean {
  return "deir:".includes(String.fromCharCode(byte));
}

/** One JSON text, or several, one on each line. */
class JsonUsage implements Body {
  readonly isStreaming = false;
  readonly #tally: UsageTally;
  readonly #scan: JsonMembers;
  /** What follows the first text. */
  #lines: SseUsage | undefined;
  #bytes = 0;

  constructor(tally: UsageTally) {
    this.#tally = tally;
    this.#scan = openUsageScan(tally);
  }

  push(chunk: Buffer): void {
    if (this.#lines !== undefined) {
      this.#lines.push(chunk);
      return;
    }
    this.#scan.push(chunk);
    const { end } = this.#scan;
    const rest = end === undefined ? "" : chunk.toString("latin1", Math.max(0, end + 1 - this.#bytes)).trimStart();
    this.#bytes += chunk.length;
    if (rest === "") return;
    this.#lines = new SseUsage(this.#tally);
    this.#lines.push(Buffer.from(rest, "latin1"));
  }

  end(): void {
    // Every member of the first text is told as soon as it ends.
    this.#lines?.end();
  }

  textTokens(): number {
    return (this.#scan.hasNoted ? tokensOfText(this.#scan.textBytes) : 0) + (this.#lines?.textTokens() ?? 0);
  }

  anyTokens(): number {
    return tokensOfText(this.#scan.isOther ? this.#bytes : this.#scan.textBytes) + (this.#lines?.anyTokens() ?? 0);
  }
}

class PlainReader implements UsageReader {
  readonly #body: Body;
  readonly #conclude: (ending: Ending) => UsageOutcome;

  constructor(body: Body, conclude: (ending: Ending) => UsageOutcome) {
    this.#body = body;
    this.#conclude = conclude;
  }

  push(chunk: Uint8Array): void {
    this.#body.push(asBuffer(chunk));
  }

  end(ending: Ending, done: (outcome: UsageOutcome) => void): void {
    this.#body.end();
    done(this.#conclude(ending));
  }
}

interface Conclusions {
  readonly conclude: (ending: Ending) => UsageOutcome;
  /** For a response of so many bytes of which nothing could be read. */
  readonly estimate: (bytes: number) => UsageOutcome;
}

class DecodingReader implements UsageReader {
  readonly #body: Body;
  readonly #conclusions: Conclusions;
  readonly #decoder: ContentDecoder;
  #bytes = 0;

  constructor(encoding: string, body: Body, conclusions: Conclusions) {
    this.#body = body;
    this.#conclusions = conclusions;
    this.#decoder = new ContentDecoder(encoding, (bytes) => body.push(bytes));
  }

  push(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    this.#decoder.push(asBuffer(chunk));
  }

  end(ending: Ending, done: (outcome: UsageOutcome) => void): void {
    this.#decoder.end((failed) => {
      this.#body.end();
      const outcome = this.#conclusions.conclude(ending);
      done(failed ? larger(outcome, this.#conclusions.estimate(this.#bytes)) : outcome);
    });
  }
}

/** Of what was read of a body that could not be decoded whole, and an estimate by its bytes. */
function larger(read: UsageOutcome, estimate: UsageOutcome): UsageOutcome {
  if (read.kind === "uncounted") return read.reason === "absent" ? estimate : read;
  const isLess = read.usage.estimated && estimate.kind === "counted" && read.usage.total < estimate.usage.total;
  return isLess ? estimate : read;
}

/**
 * What the upstream reported of the whole answer decides, unless a part of it could not be read, or the answer is labelled as
 * something else than JSON and events, so that the text of a model may look like a report: then an estimate decides if it is
 * larger. Where it did not, what a model wrote is estimated, with the
 * input; of an answer of unknown form, all its text. An error, an answer to a request without a body, and one of an
 * endpoint that generates nothing cost nothing that is not reported; nor does the copy of an answer that was charged when
 * it was made.
 */
function outcomeOf(head: ResponseHead, tally: UsageTally, body: Body, ending: Ending): UsageOutcome {
  const { status, requestBytes = 0, asked } = head;
  const reported = tally.reported();
  const isCopy = asked !== undefined && readsStored(asked, requestBytes);
  if (isCopy && tally.isSettled && !tally.isBackground) return { kind: "uncounted", reason: "stored" };
  if (tally.isSettled && !tally.isIncomplete) return reported;
  // It is still being made. Of a copy that is left before its usage, nobody knows whether an earlier answer has told it.
  if (isCopy && ending === "whole" && !body.isStreaming) return reported;
  if (status >= 400) return isAbsent(reported) ? { kind: "uncounted", reason: "errorStatus" } : reported;
  if (asked !== undefined && generatesNothing(asked.path)) return reported;
  const input = tokensOfText(requestBytes);
  const output = body.textTokens();
  if (tally.isSettled) {
    return requestBytes === 0 ? reported : tally.atLeast(input, Math.max(output, body.anyTokens()));
  }
  if (output > 0) return tally.estimated(input, output);
  if (reported.kind === "counted") return reported.usage.input === undefined ? tally.estimated(input, 0) : reported;
  const isWriting = ending === "cutShort" && body.isStreaming;
  if (requestBytes === 0) return isWriting ? tally.estimated(0, 1) : reported;
  return mayHoldAnswer(status, ending)
    ? tally.estimated(input, Math.max(isWriting ? 1 : 0, body.anyTokens()))
    : reported;
}

/** RFC 9110 §15.3: of the whole answers, those with content. Of one that broke off, a model may have written more. */
function mayHoldAnswer(status: number, ending: Ending): boolean {
  return ending === "cutShort" || (status < 300 && status !== 204 && status !== 205);
}

function isAbsent(outcome: UsageOutcome): boolean {
  return outcome.kind === "uncounted" && outcome.reason === "absent";
}

/** The outcome for a request whose answer never came: the input alone. */
export function estimateOfRequest(requestBytes: number): UsageOutcome {
  const input = tokensOfText(requestBytes);
  return { kind: "counted", usage: { input, total: input, estimated: true } };
}

/** Of a response whose content coding is unknown: by its bytes, unless nothing was asked with a body. */
function estimateOfBlind({ status, requestBytes = 0, asked }: ResponseHead, bytes: number): UsageOutcome {
  if (status >= 400 || requestBytes === 0 || (asked !== undefined && generatesNothing(asked.path)))
    return { kind: "uncounted", reason: "undecodable" };
  return new UsageTally().estimated(tokensOfText(requestBytes), tokensOfText(bytes));
}

/** Of server-sent events, or of lines of JSON. */
function isStream(contentType: string | undefined): boolean {
  return (
    contentType !== undefined && /^\s*(?:text\/event-stream|application\/(?:x-)?(?:ndjson|jsonl))\b/i.test(contentType)
  );
}

/** Labelled, and neither as JSON nor as events nor as media: all of it may be what a model wrote. */
function isOtherText(contentType: string | undefined): boolean {
  if (contentType === undefined || isStream(contentType) || isMedia(contentType)) return false;
  return !/^[^;]*\bjson\b/i.test(contentType) && contentType.trim() !== "";
}

/** Content without text, whose bytes say nothing of tokens. */
function isMedia(contentType: string | undefined): boolean {
  return contentType !== undefined && /^\s*(?:audio|image|video)\//i.test(contentType);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
