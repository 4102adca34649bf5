/** One request of an HTTP/1 connection, and the response to it (RFC 9112 §4, §6, §7). */
import type { FieldList, IncomingBody, ServerExchange, ServerExchangeEvents, SwitchedStream } from "../ports.ts";
import type { RequestHead } from "./request-head.ts";
import { joinedBytes, joinText, renderFieldLines } from "./field-text.ts";
import { renderHead, renderInterimHead } from "./response-text.ts";

/** The connection of an exchange. */
export interface ExchangeConnection {
  /** The body of the exchange; undefined if there is none, or if it has been delivered completely. */
  readonly body: IncomingBody | undefined;
  /** Whether the body has not been received completely. */
  readonly isReceiving: boolean;
  /** Written bytes that have not been passed to the kernel. */
  readonly unreadBytes: number;
  /** Wall time in milliseconds. */
  nowMs(): number;
  /** Whether the response has to be the last one. Called once, for its head. */
  isLast(): boolean;
  /** Makes the response the last one. */
  closeAfterResponse(): void;
  /**
   * @param isExclusive as for `ServerExchange.write`.
   * @returns false if the client reads too slowly.
   */
  write(bytes: Buffer | string, isExclusive: boolean): boolean;
  /** As `write`, for a response that is complete with these bytes. */
  writeLast(bytes: Buffer | string): void;
  /** Writes several parts together. @param isLast whether the response is complete with them. */
  writeParts(parts: readonly (Buffer | string)[], isExclusive: boolean, isLast: boolean): boolean;
  /** Writes `head` and returns the socket, with all bytes that were received after the request. */
  switchProtocols(head: string): SwitchedStream;
  /**
   * Closes the connection at once.
   *
   * @param isAbrupt whether to reset it (RST), because the client would read its end as that of the response.
   */
  destroy(isAbrupt: boolean): void;
}

/**
 * How the client detects the end of the response: it has no body (`none`), by its length (`length`), by its last chunk
 * (`chunked`), or by the end of the connection (`close`).
 */
type Framing = "none" | "length" | "chunked" | "close";

/**
 * The progress of the response. A head waits (`headHeld`) for the first part of its body, to be sent with it in one
 * write, at most until the end of the turn of the event loop. `closed`: the exchange has ended.
 */
type ResponseState = "awaited" | "headHeld" | "started" | "ended" | "switched" | "closed";

/** A request and its response. Requests of a connection are served one after the other. */
export class Http1Exchange implements ServerExchange {
  readonly head: RequestHead;
  readonly #connection: ExchangeConnection;
  #state: ResponseState = "awaited";
  #framing: Framing = "none";
  /** Bytes of the body that are still to be written, with the framing `length`. */
  #remaining = 0;
  #heldHead = "";
  #events: ServerExchangeEvents | undefined;

  constructor(connection: ExchangeConnection, head: RequestHead) {
    this.#connection = connection;
    this.head = head;
  }

  /** Sets the receiver of the events. Called by the connection when the request has begun. */
  listen(events: ServerExchangeEvents | undefined): void {
    this.#events = events;
  }

  get httpVersion(): string {
    return this.head.minorVersion === 1 ? "1.1" : "1.0";
  }

  get body(): IncomingBody | undefined {
    return this.#connection.body;
  }

  get isReceiving(): boolean {
    return this.#state === "switched" || this.#connection.isReceiving;
  }

  get waitingBytes(): number {
    return this.unreadBytes;
  }

  get unreadBytes(): number {
    return this.#connection.unreadBytes;
  }

  /** Whether the response has begun. Its head may not be written yet. */
  get hasResponded(): boolean {
    return this.#state !== "awaited";
  }

  /** Whether the whole response has been written. */
  get hasEnded(): boolean {
    return this.#state === "ended" || this.#state === "closed";
  }

  /** Whether the exchange has ended. */
  get hasClosed(): boolean {
    return this.#state === "closed";
  }

  respond(status: number, fields: readonly string[], body: Buffer | string): void {
    if (!this.#begins()) return;
    // The server does not wait for the rest of the request (RFC 9110 §15.5.9).
    if (status === 408) this.closeAfterResponse();
    const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    const { text, contentLength } = renderHead(status, fields, this.#connection.nowMs());
    const hasBody = this.#mayHaveBody(status);
    const length = hasBody && contentLength === undefined ? `content-length: ${bytes}\r\n` : "";
    const head = `${text}${length}${this.#connectionLines()}\r\n`;
    this.#state = "ended";
    if (!hasBody || bytes === 0) this.#connection.writeLast(head);
    else if (typeof body === "string" && bytes === body.length) this.#connection.writeLast(head + body);
    else this.#writeJoined(head, typeof body === "string" ? Buffer.from(body) : body, "", false, true);
  }

  forward(status: number, fields: readonly string[], body: Buffer): void {
    this.#hold(status, fields);
    if (body.length > 0) this.#write(body, false, this.#isEndOf(body));
    this.end([]);
  }

  inform(status: number, fields: readonly string[]): void {
    if (this.#state !== "awaited" || this.head.minorVersion === 0) return;
    this.#connection.write(renderInterimHead(status, fields), false);
  }

  start(status: number, fields: readonly string[]): void {
    this.#hold(status, fields);
    if (this.#state === "headHeld") process.nextTick(releaseHead, this);
  }

  write(bytes: Buffer, isExclusive = false): boolean {
    return this.#write(bytes, isExclusive, false);
  }

  end(trailers: FieldList): void {
    if (this.#state !== "headHeld" && this.#state !== "started") return;
    // The client waits for the rest, and would read the next response as it.
    if (this.#remaining > 0) {
      this.reset();
      return;
    }
    const head = this.#takeHead();
    this.#state = "ended";
    const end = this.#framing === "chunked" ? `0\r\n${renderFieldLines(trailers)}\r\n` : "";
    this.#connection.writeLast(head + end);
  }

  switchProtocols(protocol: string, fields: readonly string[]): SwitchedStream {
    if (this.#state !== "awaited") throw new Error("a response has been sent instead of the switch of protocols");
    const { text } = renderHead(101, fields, this.#connection.nowMs());
    this.#state = "switched";
    return this.#connection.switchProtocols(`${text}connection: upgrade\r\nupgrade: ${protocol}\r\n\r\n`);
  }

  reset(): void {
    if (this.#state === "closed") return;
    if (this.#state === "headHeld") this.releaseHead();
    this.#connection.destroy(this.#framing === "close" && this.#state === "started");
  }

  /** Makes the response the last one of the connection. Called before the response. */
  closeAfterResponse(): void {
    this.#connection.closeAfterResponse();
  }

  /**
   * Rejects a request. The response is the last of the connection, because the bytes after the request are ambiguous.
   */
  reject({ status, message }: { readonly status: number; readonly message: string }): void {
    this.#connection.closeAfterResponse();
    this.respond(status, ["content-type", "text/plain"], `${message}\n`);
  }

  /** Ends the exchange. Called by the connection when the response is written, or the client has disconnected. */
  close(completed: boolean): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#events?.onClose(completed);
  }

  onDrain(): void {
    this.#events?.onDrain();
  }

  onBodyRejected(status: 400 | 431, message: string): void {
    this.#events?.onBodyRejected(status, message);
  }

  /** Sends a head that waits for the first part of its body. */
  releaseHead(): void {
    if (this.#state !== "headHeld") return;
    this.#state = "started";
    this.#connection.write(this.#takeHead(), false);
  }

  /** @returns false after the client has disconnected. */
  #begins(): boolean {
    if (this.#state === "closed") return false;
    if (this.#state !== "awaited") throw new Error("a request has one response");
    return true;
  }

  #hold(status: number, fields: readonly string[]): void {
    if (!this.#begins()) return;
    const { text, contentLength, trailerLine } = renderHead(status, fields, this.#connection.nowMs());
    this.#framing = this.#framingOf(status, contentLength);
    if (this.#framing === "close") this.#connection.closeAfterResponse();
    if (this.#framing === "length") this.#remaining = Number(contentLength);
    const chunked = this.#framing === "chunked" ? `${trailerLine}transfer-encoding: chunked\r\n` : "";
    this.#heldHead = `${text}${chunked}${this.#connectionLines()}\r\n`;
    this.#state = "headHeld";
  }

  #framingOf(status: number, contentLength: string | undefined): Framing {
    if (!this.#mayHaveBody(status)) return "none";
    if (contentLength !== undefined) return "length";
    return this.head.minorVersion === 0 ? "close" : "chunked";
  }

  /** RFC 9110 §6.4.1 */
  #mayHaveBody(status: number): boolean {
    return this.head.method !== "HEAD" && status !== 204 && status !== 304;
  }

  #connectionLines(): string {
    return this.#connection.isLast() ? "connection: close\r\n" : keepAliveLines;
  }

  #takeHead(): string {
    const head = this.#heldHead;
    this.#heldHead = "";
    return head;
  }

  #isEndOf(body: Buffer): boolean {
    return this.#framing === "chunked" || (this.#framing === "length" && this.#remaining === body.length);
  }

  /** @param isLast whether the response is complete with these bytes. */
  #write(bytes: Buffer, isExclusive: boolean, isLast: boolean): boolean {
    if (this.#state !== "headHeld" && this.#state !== "started") return true;
    if (this.#framing === "none" || bytes.length === 0) return true;
    if (this.#framing === "length" && bytes.length > this.#remaining) {
      // The client would read the surplus as the next response.
      this.reset();
      return true;
    }
    const head = this.#takeHead();
    this.#state = isLast ? "ended" : "started";
    if (this.#framing !== "chunked") {
      this.#remaining -= this.#framing === "length" ? bytes.length : 0;
      return this.#writeJoined(head, bytes, "", isExclusive, isLast);
    }
    const end = isLast ? "\r\n0\r\n\r\n" : "\r\n";
    return this.#writeJoined(`${head}${bytes.length.toString(16)}\r\n`, bytes, end, isExclusive, isLast);
  }

  #writeJoined(before: string, bytes: Buffer, after: string, isExclusive: boolean, isLast: boolean): boolean {
    if (bytes.length > joinedBytes) {
      const parts = [before, bytes, after].filter((part) => part.length > 0);
      return this.#connection.writeParts(parts, isExclusive, isLast);
    }
    const joined = joinText(before, bytes, after);
    if (!isLast) return this.#connection.write(joined, true);
    this.#connection.writeLast(joined);
    return true;
  }
}

/**
 * Time for which an idle connection stays open, in seconds. It is sent to clients, so that requests do not cross the
 * close.
 */
export const keepAliveSeconds = 75;
const keepAliveLines = `connection: keep-alive\r\nkeep-alive: timeout=${keepAliveSeconds}\r\n`;

/** A named function for `process.nextTick`, so that a response allocates no closure. */
function releaseHead(exchange: Http1Exchange): void {
  exchange.releaseHead();
}
