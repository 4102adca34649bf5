/**
 * Finds the first event of a stream, before which a response can still be replaced by that of another provider:
 * server-sent events (HTML Standard §9.2.6), and messages of Amazon's binary streams. A comment is no event. A response
 * of another type, or with a content coding, begins with its first byte.
 */
import { fieldOf } from "@gatewayproxy/http/fields";
import { readErrorEvent, readErrorMessage, type StreamedError } from "../../llm/provider-error.ts";

type Form = "events" | "messages" | "bytes";

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const colon = 0x3a;
const data = Buffer.from("data");
/** Is ignored at the start of a stream of events. */
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
/** The first four bytes of a message are its length. */
const lengthBytes = 4;

/** Reads the body of one response up to its first event. */
export class FirstEvent {
  readonly #form: Form;
  /** Bytes that were read. */
  #bytes = 0;
  /** The length of the first message, of which the first bytes have arrived. */
  #messageBytes = 0;
  /** Bytes of the current line that match `data`; -1 after one that does not. */
  #matched = 0;
  #lineBytes = 0;
  #hasData = false;
  #wasReturn = false;

  /** @param headers of the response: flat, names in lower case. */
  constructor(headers: readonly string[]) {
    this.#form = formOf(headers);
  }

  /** Whether the response is a stream, and has ended without any event. To be called at its end. */
  get isMissing(): boolean {
    return this.#form !== "bytes" && !this.#hasData;
  }

  /** Reads more of the body. @returns whether the first event is complete. */
  push(chunk: Buffer): boolean {
    if (this.#form === "bytes") return chunk.length > 0;
    return this.#form === "messages" ? this.#readMessage(chunk) : chunk.some((byte) => this.#readByte(byte));
  }

  /**
   * Returns the error that the first event reports; undefined for any other.
   *
   * @param stream all bytes of the body so far.
   */
  errorIn(stream: Buffer): StreamedError | undefined {
    if (this.#form === "bytes" || !this.#hasData) return undefined;
    return this.#form === "messages" ? readErrorMessage(stream) : readErrorEvent(stream);
  }

  #readMessage(chunk: Buffer): boolean {
    for (let at = 0; at < chunk.length && this.#bytes + at < lengthBytes; at++) {
      this.#messageBytes = this.#messageBytes * 256 + (chunk[at] ?? 0);
    }
    this.#bytes += chunk.length;
    this.#hasData = this.#bytes >= lengthBytes && this.#bytes >= this.#messageBytes;
    return this.#hasData;
  }

  /** Whether the byte belongs to a byte order mark at the start. A part of one begins a line that is no data. */
  #isOfMark(byte: number): boolean {
    if (this.#bytes >= byteOrderMark.length) return false;
    if (byte === byteOrderMark[this.#bytes]) {
      this.#bytes++;
      return true;
    }
    if (this.#bytes > 0) {
      this.#lineBytes = this.#bytes;
      this.#matched = -1;
    }
    this.#bytes = byteOrderMark.length;
    return false;
  }

  /** @returns whether the byte ends an event with data. */
  #readByte(byte: number): boolean {
    if (this.#isOfMark(byte)) return false;
    const isSecondOfBreak = this.#wasReturn && byte === lineFeed;
    this.#wasReturn = byte === carriageReturn;
    if (isSecondOfBreak) return false;
    if (byte === lineFeed || byte === carriageReturn) {
      const isBlank = this.#lineBytes === 0;
      if (this.#matched === data.length) this.#hasData = true;
      this.#lineBytes = 0;
      this.#matched = 0;
      return isBlank && this.#hasData;
    }
    this.#lineBytes++;
    if (this.#matched >= 0 && this.#matched < data.length) {
      this.#matched = byte === data[this.#matched] ? this.#matched + 1 : -1;
    } else if (this.#matched === data.length && this.#lineBytes === data.length + 1 && byte !== colon) {
      this.#matched = -1;
    }
    return false;
  }
}

function formOf(headers: readonly string[]): Form {
  const coding = fieldOf(headers, "content-encoding")?.toLowerCase() ?? "identity";
  if (coding !== "identity") return "bytes";
  const type = fieldOf(headers, "content-type") ?? "";
  if (/^\s*text\/event-stream\b/i.test(type)) return "events";
  return /^\s*application\/vnd\.amazon\.eventstream\b/i.test(type) ? "messages" : "bytes";
}

/** Whether a response with these fields is a stream of events. */
export function isEventStream(headers: readonly string[]): boolean {
  return formOf(headers) !== "bytes";
}
