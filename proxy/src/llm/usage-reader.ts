/**
 * Reads the usage of an LLM response while it is forwarded to the client.
 *
 * The reader inspects chunks without a change or delay, and keeps at most a few tens of KiB for a response of any
 * size. It reads JSON bodies and streams of server-sent events, plain or compressed, with any content type or none,
 * since many servers label them wrongly, and Amazon's binary event streams by their content type. `usage.ts` interprets
 * the figures.
 */
import type { UsageOutcome } from "../ir/usage.ts";
import { type ProviderTarget, generatesNothing, readsStoredResponse, saysTimeout } from "./charging.ts";
import { ContentDecoder, isIdentity } from "./content-decoder.ts";
import { tokensOfText } from "./estimate.ts";
import { eventStreamType } from "./event-stream.ts";
import { EventStreamUsage } from "./event-stream-usage.ts";
import { FirstToken } from "./first-token.ts";
import { SseUsage } from "./sse-usage.ts";
import { UsageScan } from "./usage-scan.ts";
import { UsageTally } from "./usage.ts";

/** The parts of the response head that the reader needs. */
export interface ResponseHead {
  readonly status: number;
  /** Values of the header fields; absent if the response does not have them. */
  readonly contentType?: string;
  readonly contentEncoding?: string;
  /** The usage that the header fields report, as a usage object; absent: none. */
  readonly usage?: object;
  /** The length of the request body, for an estimate of the input; absent: 0. Read when the response has ended. */
  readonly requestBytes?: number;
  /** The address of the client, which has a share of the memory for decoders. */
  readonly client?: string;
  /** The target of the request; absent: an endpoint that generates. */
  readonly target?: ProviderTarget;
  /** Called when the first token of a stream has come; absent: it is not looked for. */
  readonly onFirstToken?: () => void;
}

/** Whether the response was read to its end. */
export type Ending = "whole" | "cutShort";

/** The reader of one response. */
export interface UsageReader {
  /** Reads the next bytes. Keeps no reference to a plain chunk. A compressed chunk must not be modified afterwards. */
  push(chunk: Uint8Array): void;
  /**
   * Ends the reading. Must be called exactly once, after the last push. `done` is called once with the outcome: before
   * `end` returns for a plain response, from the event loop for a compressed one. Never throws.
   */
  end(ending: Ending, done: (outcome: UsageOutcome) => void): void;
}

/** Creates the reader of one response. */
export function createUsageReader(head: ResponseHead): UsageReader {
  const tally = new UsageTally();
  const label = labelOf(head.contentType);
  if (label === "other") tally.setIncomplete();
  // A report in the body follows and takes precedence, since it may have more figures.
  if (head.usage !== undefined) tally.add(head.usage);
  const body = bodyOf(label, tally, head.onFirstToken === undefined ? undefined : new FirstToken(head.onFirstToken));
  const computeOutcome = (ending: Ending, unreadTokens: number) =>
    outcomeOf(head, tally, body, { ending, unreadTokens });
  const encoding = head.contentEncoding;
  if (encoding === undefined || isIdentity(encoding)) return new PlainReader(body, computeOutcome);
  return new DecodingReader(encoding, tally, body, computeOutcome, head.client);
}

function bodyOf(label: Label, tally: UsageTally, firstToken: FirstToken | undefined): AnyBody {
  if (label === "events") return new SseUsage(tally, firstToken);
  if (label === "binaryEvents") return new EventStreamUsage(tally, firstToken);
  return new UnlabelledUsage(tally, label, firstToken);
}

/** Whether a response may be an uncompressed stream of events, which can be edited. */
export function mayBePlainEvents({ contentType, contentEncoding }: ResponseHead): boolean {
  if (contentEncoding !== undefined && !isIdentity(contentEncoding)) return false;
  return contentType === undefined || !(/\bjson\b/i.test(contentType) || eventStreamType.test(contentType));
}

/** A decoded response body. */
interface Body {
  push(chunk: Buffer): void;
  end(): void;
  /** The estimated tokens of the model's text; 0 if no text of a model has been found. */
  textTokens(): number;
  /** The estimated tokens of the whole body, for an unknown format. */
  allTextTokens(): number;
  /** The number of bytes of JSON syntax, which are not text. */
  readonly markBytes: number;
  /** Whether a stream has begun: a model generates, even if no text has been received. */
  readonly isStreaming: boolean;
}

type AnyBody = Omit<Body, "markBytes">;

/** A body that is not labelled as a stream. The first byte decides how it is read. */
class UnlabelledUsage {
  readonly #tally: UsageTally;
  readonly #label: Label;
  readonly #firstToken: FirstToken | undefined;
  #body: Body | undefined;
  #bytes = 0;

  constructor(tally: UsageTally, label: Label, firstToken: FirstToken | undefined) {
    this.#tally = tally;
    this.#label = label;
    this.#firstToken = firstToken;
  }

  push(chunk: Buffer): void {
    this.#bytes += chunk.length;
    this.#body ??= this.#createBody(chunk);
    this.#body?.push(chunk);
  }

  /** Skips blanks and a byte order mark. */
  #createBody(chunk: Buffer): Body | undefined {
    const first = chunk.find((byte) => byte > 0x20 && !byteOrderMark.has(byte));
    if (first === undefined) return undefined;
    return mayBeginEventField(first) ? new SseUsage(this.#tally, this.#firstToken) : new JsonUsage(this.#tally);
  }

  end(): void {
    this.#body?.end();
  }

  textTokens(): number {
    const tokens = this.#body?.textTokens() ?? 0;
    return tokens === 0 || this.#label === "json" ? tokens : Math.max(tokens, this.allTextTokens());
  }

  allTextTokens(): number {
    const tokens = this.#body?.allTextTokens() ?? 0;
    if (this.#label === "media") return 0;
    if (this.#label === "json") return tokens;
    // Text that a model wrote may look like JSON or events.
    const markBytes = this.#label === "none" ? (this.#body?.markBytes ?? 0) : 0;
    return Math.max(tokens, tokensOfText(this.#bytes - markBytes));
  }

  get isStreaming(): boolean {
    return this.#body?.isStreaming ?? false;
  }
}

/** The bytes of U+FEFF in UTF-8, with which a stream may begin (WHATWG HTML §9.2.5). */
const byteOrderMark: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf]);

/** Whether a byte begins `data`, `event`, `id`, `retry` or a comment. No JSON object begins so. */
function mayBeginEventField(byte: number): boolean {
  return "deir:".includes(String.fromCharCode(byte));
}

/** A body of one JSON text, or of several, one per line. */
class JsonUsage implements Body {
  readonly isStreaming = false;
  readonly #tally: UsageTally;
  readonly #scan: UsageScan;
  /** Reads the lines after the first text. */
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

  allTextTokens(): number {
    return tokensOfText(this.#scan.isOther ? this.#bytes : this.#scan.textBytes) + (this.#lines?.allTextTokens() ?? 0);
  }
}

type ComputeOutcome = (ending: Ending, unreadTokens: number) => UsageOutcome;

class PlainReader implements UsageReader {
  readonly #body: AnyBody;
  readonly #computeOutcome: ComputeOutcome;

  constructor(body: AnyBody, computeOutcome: ComputeOutcome) {
    this.#body = body;
    this.#computeOutcome = computeOutcome;
  }

  push(chunk: Uint8Array): void {
    this.#body.push(asBuffer(chunk));
  }

  end(ending: Ending, done: (outcome: UsageOutcome) => void): void {
    this.#body.end();
    done(this.#computeOutcome(ending, 0));
  }
}

class DecodingReader implements UsageReader {
  readonly #tally: UsageTally;
  readonly #body: AnyBody;
  readonly #computeOutcome: ComputeOutcome;
  readonly #decoder: ContentDecoder;
  #bytes = 0;

  constructor(encoding: string, tally: UsageTally, body: AnyBody, computeOutcome: ComputeOutcome, client?: string) {
    this.#tally = tally;
    this.#body = body;
    this.#computeOutcome = computeOutcome;
    this.#decoder = new ContentDecoder(encoding, (bytes) => body.push(bytes), { client });
  }

  push(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    this.#decoder.push(asBuffer(chunk));
  }

  /** The bytes that could not be decoded are estimated by the compression ratio of the others. */
  end(ending: Ending, done: (outcome: UsageOutcome) => void): void {
    this.#decoder.end((failed) => {
      this.#body.end();
      if (failed) this.#tally.setIncomplete();
      const { readBytes, decodedBytes } = this.#decoder;
      const factor = readBytes === 0 ? 1 : Math.max(1, decodedBytes / readBytes);
      const unread = failed ? tokensOfText((this.#bytes - readBytes) * factor) : 0;
      const outcome = this.#computeOutcome(ending, unread);
      const isUnread = failed && outcome.kind === "uncounted" && outcome.reason === "absent";
      done(isUnread ? { kind: "uncounted", reason: "undecodable" } : outcome);
    });
  }
}

interface ReadingState {
  readonly ending: Ending;
  /** The estimated tokens in the bytes that could not be decoded. */
  readonly unreadTokens: number;
}

/**
 * Returns the outcome of a response.
 *
 * A report on the whole response decides. If a part could not be read, or the content type is neither JSON nor events,
 * so that text of a model may look like a report, the larger of report and estimate decides. Without a report, the text
 * of the model and the input are estimated; for an unknown format, all text. Without a report, an error, a response to
 * a request without a body, and a response of an endpoint that generates nothing cost nothing. A copy of a response
 * that was charged at its creation costs nothing either. An error that says that a server has waited too long for the
 * model costs the input, like a timeout of the gateway.
 */
function outcomeOf(head: ResponseHead, tally: UsageTally, body: AnyBody, state: ReadingState): UsageOutcome {
  const { ending, unreadTokens } = state;
  const { status, requestBytes = 0, target } = head;
  const reported = tally.reported();
  const isCopy = target !== undefined && readsStoredResponse(target, requestBytes);
  if (isCopy && tally.isSettled && !tally.isBackground) return { kind: "uncounted", reason: "stored" };
  if (tally.isSettled && !tally.isIncomplete) return reported;
  // The response is still being generated. If a copy ends before its usage, an earlier response may not have reported
  // it.
  if (isCopy && ending === "whole" && !body.isStreaming) return reported;
  if (status >= 400 && !isAbsent(reported)) return reported;
  const isFree = target !== undefined && generatesNothing(target.path);
  if (saysTimeout(status) && requestBytes > 0 && !isFree) return estimateOfRequest(requestBytes);
  if (status >= 400) return { kind: "uncounted", reason: "errorStatus" };
  if (isFree) return reported;
  const input = tokensOfText(requestBytes);
  const output = body.textTokens();
  const upperEstimate = (): number => Math.max(output, body.allTextTokens()) + unreadTokens;
  if (tally.isSettled) return requestBytes === 0 ? reported : tally.atLeast(input, upperEstimate());
  if (output > 0) return tally.estimated(input, unreadTokens === 0 ? output : upperEstimate());
  const isWriting = ending === "cutShort" && body.isStreaming;
  if (requestBytes === 0) return isWriting ? tally.estimated(0, 1) : reported;
  if (reported.kind === "counted" && !tally.isOpen && unreadTokens === 0) return tally.estimated(input, 0);
  return mayHaveContent(status, ending)
    ? tally.estimated(input, Math.max(isWriting ? 1 : 0, upperEstimate()))
    : reported;
}

/** Whether the response may have content (RFC 9110 §15.3), or is incomplete, so that a model may have written more. */
function mayHaveContent(status: number, ending: Ending): boolean {
  return ending === "cutShort" || (status < 300 && status !== 204 && status !== 205);
}

function isAbsent(outcome: UsageOutcome): boolean {
  return outcome.kind === "uncounted" && outcome.reason === "absent";
}

/** The outcome for a request without a response: the input alone. */
export function estimateOfRequest(requestBytes: number): UsageOutcome {
  const input = tokensOfText(requestBytes);
  return { kind: "counted", usage: { input, total: input, estimated: true } };
}

/** The kind of a body by its content type; `other`: the whole body may be text of a model. */
type Label = "json" | "events" | "binaryEvents" | "media" | "other" | "none";

function labelOf(contentType: string | undefined): Label {
  if (contentType === undefined || contentType.trim() === "") return "none";
  // Events, or lines of JSON.
  if (/^\s*(?:text\/event-stream|application\/(?:x-)?(?:ndjson|jsonl))\b/i.test(contentType)) return "events";
  if (eventStreamType.test(contentType)) return "binaryEvents";
  // The size of media does not depend on tokens.
  if (/^\s*(?:audio|image|video)\//i.test(contentType)) return "media";
  return /^[^;]*\bjson\b/i.test(contentType) ? "json" : "other";
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
