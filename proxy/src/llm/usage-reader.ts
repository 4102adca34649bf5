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
import { SseUsage } from "./sse-usage.ts";
import { UsageScan } from "./usage-scan.ts";
import { UsageTally } from "./usage.ts";

/** What the reader must know of the response's head. */
export interface ResponseHead {
  readonly status: number;
  /** Values of the header fields; absent where the response has none. */
  readonly contentType?: string;
  readonly contentEncoding?: string;
  /** Bytes of the request's body, for an estimate of the input; absent: 0. It is read when the response has ended. */
  readonly requestBytes?: number;
  /** The address of the client, which has a share of the memory for decoders. */
  readonly client?: string;
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
  const label = labelOf(head.contentType);
  if (label === "other") tally.setIncomplete();
  const body = label === "events" ? new SseUsage(tally) : new UnlabelledUsage(tally, label);
  const conclude = (ending: Ending, unreadTokens: number) => outcomeOf(head, tally, body, { ending, unreadTokens });
  const encoding = head.contentEncoding;
  if (encoding === undefined || isIdentity(encoding)) return new PlainReader(body, conclude);
  return new DecodingReader(encoding, tally, body, conclude, head.client);
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
  /** Bytes that carry nothing: the marks of JSON. */
  readonly markBytes: number;
  /** Whether a stream has begun: a model is writing, though none of its text may have come. */
  readonly isStreaming: boolean;
}

type AnyBody = Omit<Body, "markBytes">;

/** A body that is not labelled as a stream: what it is shows in its first byte. */
class UnlabelledUsage {
  readonly #tally: UsageTally;
  readonly #label: Label;
  #body: Body | undefined;
  #bytes = 0;

  constructor(tally: UsageTally, label: Label) {
    this.#tally = tally;
    this.#label = label;
  }

  push(chunk: Buffer): void {
    this.#bytes += chunk.length;
    this.#body ??= this.#bodyThatBegins(chunk);
    this.#body?.push(chunk);
  }

  /** Passes over blanks and a byte order mark, in which nothing is to be read. */
  #bodyThatBegins(chunk: Buffer): Body | undefined {
    const first = chunk.find((byte) => byte > 0x20 && !byteOrderMark.has(byte));
    if (first === undefined) return undefined;
    return beginsEvent(first) ? new SseUsage(this.#tally) : new JsonUsage(this.#tally);
  }

  end(): void {
    this.#body?.end();
  }

  textTokens(): number {
    const tokens = this.#body?.textTokens() ?? 0;
    return tokens === 0 || this.#label === "json" ? tokens : Math.max(tokens, this.anyTokens());
  }

  anyTokens(): number {
    const tokens = this.#body?.anyTokens() ?? 0;
    if (this.#label === "media") return 0;
    if (this.#label === "json") return tokens;
    // What looks like JSON or events may be text that a model has written so.
    const markBytes = this.#label === "none" ? (this.#body?.markBytes ?? 0) : 0;
    return Math.max(tokens, tokensOfText(this.#bytes - markBytes));
  }

  get isStreaming(): boolean {
    return this.#body?.isStreaming ?? false;
  }
}

/** The bytes of U+FEFF, which may stand in front of a stream (WHATWG HTML §9.2.5). */
const byteOrderMark: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf]);

/** Of `data`, `event`, `id`, `retry` or a comment, none of which begins an object in JSON. */
function beginsEvent(byte: number): boolean {
  return "deir:".includes(String.fromCharCode(byte));
}

/** One JSON text, or several, one on each line. */
class JsonUsage implements Body {
  readonly isStreaming = false;
  readonly #tally: UsageTally;
  readonly #scan: UsageScan;
  /** What follows the first text. */
  #lines: SseUsage | undefined;
  #bytes = 0;

  constructor(tally: UsageTally) {
    this.#tally = tally;
    this.#scan = new UsageScan(tally);
  }

  push(chunk: Buffer): void {
    if (this.#lines !== undefined) {
      this.#lines.push(chunk);
      return;
    }
    this.#scan.push(chunk);
    const { endOffset: end } = this.#scan;
    const rest = end === undefined ? "" : chunk.toString("latin1", Math.max(0, end + 1 - this.#bytes)).trimStart();
    this.#bytes += chunk.length;
    if (rest === "") return;
    this.#lines = new SseUsage(this.#tally);
    this.#lines.push(Buffer.from(rest, "latin1"));
  }

  end(): void {
    this.#scan.end();
    this.#lines?.end();
  }

  textTokens(): number {
    return (this.#scan.hasModelText ? tokensOfText(this.#scan.textBytes) : 0) + (this.#lines?.textTokens() ?? 0);
  }

  get markBytes(): number {
    return this.#scan.markBytes;
  }

  anyTokens(): number {
    return tokensOfText(this.#scan.isOther ? this.#bytes : this.#scan.textBytes) + (this.#lines?.anyTokens() ?? 0);
  }
}

type Conclude = (ending: Ending, unreadTokens: number) => UsageOutcome;

class PlainReader implements UsageReader {
  readonly #body: AnyBody;
  readonly #conclude: Conclude;

  constructor(body: AnyBody, conclude: Conclude) {
    this.#body = body;
    this.#conclude = conclude;
  }

  push(chunk: Uint8Array): void {
    this.#body.push(asBuffer(chunk));
  }

  end(ending: Ending, done: (outcome: UsageOutcome) => void): void {
    this.#body.end();
    done(this.#conclude(ending, 0));
  }
}

class DecodingReader implements UsageReader {
  readonly #tally: UsageTally;
  readonly #body: AnyBody;
  readonly #conclude: Conclude;
  readonly #decoder: ContentDecoder;
  #bytes = 0;

  constructor(encoding: string, tally: UsageTally, body: AnyBody, conclude: Conclude, client?: string) {
    this.#tally = tally;
    this.#body = body;
    this.#conclude = conclude;
    this.#decoder = new ContentDecoder(encoding, (bytes) => body.push(bytes), { client });
  }

  push(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    this.#decoder.push(asBuffer(chunk));
  }

  /** What could not be decoded is estimated by its bytes, multiplied as those that could. */
  end(ending: Ending, done: (outcome: UsageOutcome) => void): void {
    this.#decoder.end((failed) => {
      this.#body.end();
      if (failed) this.#tally.setIncomplete();
      const { readBytes, decodedBytes } = this.#decoder;
      const factor = readBytes === 0 ? 1 : Math.max(1, decodedBytes / readBytes);
      const unread = failed ? tokensOfText((this.#bytes - readBytes) * factor) : 0;
      const outcome = this.#conclude(ending, unread);
      const isUnread = failed && outcome.kind === "uncounted" && outcome.reason === "absent";
      done(isUnread ? { kind: "uncounted", reason: "undecodable" } : outcome);
    });
  }
}

interface HowRead {
  readonly ending: Ending;
  /** About how many tokens are in the bytes that could not be decoded. */
  readonly unreadTokens: number;
}

/**
 * What the upstream reported of the whole answer decides, unless a part of it could not be read, or the answer is labelled as
 * something else than JSON and events, so that the text of a model may look like a report: then an estimate decides if it is
 * larger. Where nothing was reported, what a model wrote is estimated, with the input; of an answer of unknown form, all its
 * text. An error, an answer to a request without a body, and one of an endpoint that generates nothing cost nothing that is not
 * reported; nor does the copy of an answer that was charged when it was made.
 */
function outcomeOf(head: ResponseHead, tally: UsageTally, body: AnyBody, how: HowRead): UsageOutcome {
  const { ending, unreadTokens } = how;
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
  const any = (): number => Math.max(output, body.anyTokens()) + unreadTokens;
  if (tally.isSettled) return requestBytes === 0 ? reported : tally.atLeast(input, any());
  if (output > 0) return tally.estimated(input, unreadTokens === 0 ? output : any());
  const isWriting = ending === "cutShort" && body.isStreaming;
  if (requestBytes === 0) return isWriting ? tally.estimated(0, 1) : reported;
  if (reported.kind === "counted" && !tally.isOpen && unreadTokens === 0) return tally.estimated(input, 0);
  return mayHoldAnswer(status, ending) ? tally.estimated(input, Math.max(isWriting ? 1 : 0, any())) : reported;
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

/** What the content type says of a body; `other`: all of it may be text that a model wrote. */
type Label = "json" | "events" | "media" | "other" | "none";

function labelOf(contentType: string | undefined): Label {
  if (contentType === undefined || contentType.trim() === "") return "none";
  // Events, or lines of JSON.
  if (/^\s*(?:text\/event-stream|application\/(?:x-)?(?:ndjson|jsonl))\b/i.test(contentType)) return "events";
  // Its bytes tell nothing of tokens.
  if (/^\s*(?:audio|image|video)\//i.test(contentType)) return "media";
  return /^[^;]*\bjson\b/i.test(contentType) ? "json" : "other";
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
