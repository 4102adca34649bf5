/**
 * Reads the usage of a stream of Bedrock: of ConverseStream, whose `metadata` event has the usage, and of
 * InvokeModelWithResponseStream, whose `chunk` events have the events of the model in base64.
 *
 * Each message is read like an event of a text stream with the same JSON, so that usage and estimates are the same.
 */
import { tokensOfText } from "./estimate.ts";
import { type EventStreamMessage, EventStreamReader } from "./event-stream.ts";
import type { FirstToken } from "./first-token.ts";
import { SseUsage } from "./sse-usage.ts";
import type { UsageTally } from "./usage.ts";

const startOfEvent = Buffer.from("data: ");
const endOfEvent = Buffer.from("\n\n");
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;

/** The reader of one binary event stream, after content decoding. It writes what it finds to a `UsageTally`. */
export class EventStreamUsage {
  readonly #tally: UsageTally;
  readonly #events: SseUsage;
  readonly #reader: EventStreamReader;

  constructor(tally: UsageTally, firstToken?: FirstToken) {
    this.#tally = tally;
    this.#events = new SseUsage(tally, firstToken);
    this.#reader = new EventStreamReader((message) => this.#read(message));
  }

  /** Reads the next bytes. Keeps no reference to `chunk`. */
  push(chunk: Buffer): void {
    this.#reader.push(chunk);
    if (this.#reader.unreadBytes > 0) this.#tally.setIncomplete();
  }

  /** Ends the stream. `push` must not be called afterwards. */
  end(): void {
    this.#events.end();
  }

  /** The estimated tokens of the model's text; 0 if no event contains text of a model. */
  textTokens(): number {
    const tokens = this.#events.textTokens();
    return tokens === 0 ? 0 : tokens + this.#unreadTokens;
  }

  /** The estimated tokens of all text. Bytes that could not be read count as text. */
  allTextTokens(): number {
    return this.#events.allTextTokens() + this.#unreadTokens;
  }

  /** Whether any event, or a part of one, has been received. */
  get isStreaming(): boolean {
    return this.#events.isStreaming || this.#unreadBytes > 0;
  }

  get #unreadTokens(): number {
    return tokensOfText(this.#unreadBytes);
  }

  get #unreadBytes(): number {
    return this.#reader.unreadBytes + this.#reader.pendingBytes;
  }

  #read({ headers, payload }: EventStreamMessage): void {
    // Exceptions are not of the model.
    if (headers.get(":message-type") !== "event") return;
    const event = headers.get(":event-type") === "chunk" ? partOf(payload) : payload;
    if (event === undefined) {
      this.#tally.setIncomplete();
      return;
    }
    this.#events.push(startOfEvent);
    this.#events.push(onOneLine(event));
    this.#events.push(endOfEvent);
  }
}

/** Returns the bytes of a `PayloadPart` (Bedrock, InvokeModelWithResponseStream); undefined if there are none. */
function partOf(payload: Buffer): Buffer | undefined {
  try {
    const part: unknown = JSON.parse(payload.toString());
    if (typeof part !== "object" || part === null || !("bytes" in part) || typeof part.bytes !== "string") {
      return undefined;
    }
    return Buffer.from(part.bytes, "base64");
  } catch {
    return undefined;
  }
}

/** Line ends in a JSON text are blanks. */
function onOneLine(json: Buffer): Buffer {
  if (!json.includes(lineFeed) && !json.includes(carriageReturn)) return json;
  return Buffer.from(json.map((byte) => (byte === lineFeed || byte === carriageReturn ? space : byte)));
}
