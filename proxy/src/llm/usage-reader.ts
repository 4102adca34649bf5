/**
 * Reads what an LLM response has cost while it passes on its way to the client.
 *
 * Chunks are shown to the reader; it neither changes nor delays them, and keeps at most a few tens of KiB whatever the
 * size of the response. What it can read: a JSON body and a stream of server-sent events, plain or compressed, under any
 * content type or none, as servers label them as they like. What the figures mean is decided in `usage.ts`.
 */
import type { UsageOutcome } from "../ir/usage.ts";
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
}

/** How a response came to its end: the client left first, or not (the upstream ended it, well or badly). */
export type Ending = "upstreamEnded" | "clientLeft";

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
  const body = isEventStream(head.contentType) ? new SseUsage(tally) : new UnlabelledUsage(tally);
  const conclude = (ending: Ending) => outcomeOf(head.status, tally, ending === "clientLeft" ? body : undefined);
  const encoding = head.contentEncoding;
  return encoding === undefined || isIdentity(encoding)
    ? new PlainReader(body, conclude)
    : new DecodingReader(encoding, body, conclude);
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
  /** About how many tokens have passed; undefined before the first byte. */
  estimatedTokens(): number | undefined;
}

/** A body that is not labelled as a stream: what it is shows in its first byte. */
class UnlabelledUsage implements Body {
  readonly #tally: UsageTally;
  #body: Body | undefined;

  constructor(tally: UsageTally) {
    this.#tally = tally;
  }

  push(chunk: Buffer): void {
    const [first] = chunk;
    if (first === undefined) return;
    this.#body ??= beginsEvent(first) ? new SseUsage(this.#tally) : new JsonUsage(this.#tally);
    this.#body.push(chunk);
  }

  end(): void {
    this.#body?.end();
  }

  estimatedTokens(): number | undefined {
    return this.#body?.estimatedTokens();
  }
}

/** Of `data`, `event`, `id`, `retry` or a comment, none of which begins an object in JSON. */
function beginsEvent(byte: number): boolean {
  return "deir:".includes(String.fromCharCode(byte));
}

class JsonUsage implements Body {
  readonly #scan: JsonMembers;

  constructor(tally: UsageTally) {
    this.#scan = openUsageScan(tally);
  }

  push(chunk: Buffer): void {
    this.#scan.push(chunk);
  }

  end(): void {
    // Every member is told as soon as it ends.
  }

  estimatedTokens(): number {
    return tokensOfText(this.#scan.textBytes);
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

class DecodingReader implements UsageReader {
  readonly #body: Body;
  readonly #conclude: (ending: Ending) => UsageOutcome;
  readonly #decoder: ContentDecoder;

  constructor(encoding: string, body: Body, conclude: (ending: Ending) => UsageOutcome) {
    this.#body = body;
    this.#conclude = conclude;
    this.#decoder = new ContentDecoder(encoding, (bytes) => body.push(bytes));
  }

  push(chunk: Uint8Array): void {
    this.#decoder.push(asBuffer(chunk));
  }

  end(ending: Ending, done: (outcome: UsageOutcome) => void): void {
    this.#decoder.end((failed) => {
      this.#body.end();
      const outcome = this.#conclude(ending);
      const isBlind = failed && outcome.kind === "uncounted" && outcome.reason === "absent";
      done(isBlind ? { kind: "uncounted", reason: "undecodable" } : outcome);
    });
  }
}

/** @param abandoned the body whose reader left before its end, to estimate what has passed */
function outcomeOf(status: number, tally: UsageTally, abandoned: Body | undefined): UsageOutcome {
  const isError = status >= 400;
  const estimate = isError ? undefined : abandoned?.estimatedTokens();
  const outcome = estimate === undefined ? tally.reported() : tally.cutShort(estimate);
  const isSilent = outcome.kind === "uncounted" && outcome.reason === "absent";
  return isSilent && isError ? { kind: "uncounted", reason: "errorStatus" } : outcome;
}

function isEventStream(contentType: string | undefined): boolean {
  return contentType !== undefined && /^\s*text\/event-stream\b/i.test(contentType);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
