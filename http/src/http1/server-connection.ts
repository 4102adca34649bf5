/**
 * A connection of a client that speaks HTTP/1.0 or 1.1. It reads the requests and serves one after the other. Bytes
 * that arrive too early stay unparsed. When 64 KiB of them wait, the socket is paused.
 */
import type { Socket } from "node:net";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import { writeExclusive } from "../exclusive-bytes.ts";
import type { BodyReceiver, IncomingBody, ServerExchangeEvents, SwitchedStream } from "../ports.ts";
import type { RequestTurns, WaitingConnection } from "../request-turns.ts";
import { longReadOf } from "../long-reads.ts";
import { type BodyDecoder, type BodySink, ChunkedDecoder, LengthDecoder } from "./body-decoder.ts";
import { tokenCharacters } from "./characters.ts";
import { HeadReader } from "./head-reader.ts";
import { MessageError } from "./message-error.ts";
import { type HeadLimits, parseRequestHead, type RequestHead } from "./request-head.ts";
import { renderHead } from "./response-text.ts";
import { type ExchangeConnection, Http1Exchange, keepAliveSeconds } from "./server-exchange.ts";

/** Bounds of the heads and trailers of requests. */
export interface Http1Limits extends HeadLimits {
  /** Maximum length of a head in bytes. */
  readonly headBytes: number;
  /** Maximum length of a trailer section in bytes. */
  readonly trailerBytes: number;
}

/** A head that is not a request. Parts that could not be read are empty. */
export interface RejectedHead {
  readonly status: MessageError["status"] | 408;
  readonly message: string;
  readonly method: string;
  readonly target: string;
  readonly httpVersion: string;
  /** Names and values alternate. */
  readonly fields: readonly string[];
}

/** Receives the requests of a connection. */
export interface Http1Receiver {
  /** As `WaitingConnection.client`; absent: that of all connections without one. */
  readonly client?: string;
  /** Called for each request. Returns the receiver of its events; undefined after `Http1Exchange.reject`. */
  onRequest(exchange: Http1Exchange): ServerExchangeEvents | undefined;
  /** Called for a head that is not a request, after its response. It is the last of the connection. */
  onRejected(head: RejectedHead): void;
  /** Called after a read of the socket while `heldBytes` is not 0 or a trailer section has begun and not ended. */
  onHolding(): void;
  /** Called for an internal error. The connection is closed. */
  onFault(error: unknown): void;
}

/** The server of a connection. */
export interface Http1ConnectionOwner {
  readonly limits: Http1Limits;
  /** Bounds the requests that begin in a turn of the event loop; undefined: no bound. */
  readonly turns: RequestTurns | undefined;
  /** Whether responses ask clients to close their connections. */
  readonly isLeaving: boolean;
  /** Whether connections without a request are closed. */
  readonly isClosing: boolean;
  /** Wall time in milliseconds. */
  nowMs(): number;
  /** Called when the connection has ended, or was switched to another protocol. */
  onEnd(connection: Http1ServerConnection): void;
}

/** Interval of `Http1ServerConnection.sweep` in milliseconds. Timeouts are up to one interval longer. */
export const sweepMs = 5_000;
/** Timeout for the next request, and for more of the body of a request that has its response. */
const keepAliveSweeps = (keepAliveSeconds * 1_000) / sweepMs;
/** Timeout for the end of a head. */
const headSweeps = 30_000 / sweepMs;
/** Timeout for a client to close a connection after its last response. */
const lingerSweeps = 10_000 / sweepMs;

/** Unparsed bytes at which the socket is paused: as many as a head may have. */
const maxUnreadBytes = 64 * 1024;
/** A longer part of a body causes hardly more work than to pass it on. */
const shortBodyBytes = 16 * 1024;
const cr = 0x0d;
const lf = 0x0a;

/**
 * - `open`: requests are read.
 * - `ending`: the response in progress is the last one. Received bytes are dropped.
 * - `lingering`: all responses are written, and the client may still read them. Received bytes are dropped (RFC 9112
 *   §9.6).
 * - `switched`: the socket belongs to another protocol.
 * - `closed`
 */
type ConnectionState = "open" | "ending" | "lingering" | "switched" | "closed";

/** A connection with its requests. `start` starts to read. */
export class Http1ServerConnection implements ExchangeConnection, IncomingBody, BodySink, WaitingConnection {
  readonly client: string;
  readonly #socket: Socket;
  readonly #receiver: Http1Receiver;
  readonly #owner: Http1ConnectionOwner;
  readonly #head: HeadReader;
  /** The first unparsed bytes. Those that were received after them are in `#later`. */
  #unread: Buffer | undefined;
  readonly #later = new ChunkBuffer();
  #state: ConnectionState = "open";
  #isLast = false;
  #exchange: Http1Exchange | undefined;
  /** The body of the request in progress, until it has ended. */
  #decoder: BodyDecoder | undefined;
  #bodyReceiver: BodyReceiver | undefined;
  #isPaused = false;
  #awaitsContinue = false;
  #isProcessing = false;
  #isPumpScheduled = false;
  /** Sweeps since the last progress of the client. */
  #sweeps = 0;
  #isWaiting = false;
  readonly #longRead: number;

  constructor(socket: Socket, receiver: Http1Receiver, owner: Http1ConnectionOwner) {
    this.client = receiver.client ?? "";
    this.#socket = socket;
    this.#receiver = receiver;
    this.#owner = owner;
    this.#longRead = longReadOf(socket);
    this.#head = new HeadReader(owner.limits.headBytes);
  }

  /** Starts to read. */
  start(): void {
    this.#socket
      .on("data", this.#onSocketData)
      .on("end", this.#onSocketEnd)
      .on("drain", this.#onSocketDrain)
      .on("close", this.#onSocketClose);
    this.#socket.resume();
  }

  /** Bytes that were received for requests that have not begun, or for an unread body. */
  get heldBytes(): number {
    const trailerBytes = this.#decoder instanceof ChunkedDecoder ? this.#decoder.heldBytes : 0;
    const unreadBytes = (this.#unread?.buffer.byteLength ?? 0) + this.#later.memoryBytes;
    return this.#head.length + unreadBytes + trailerBytes;
  }

  /** Whether the trailer section of a request has begun and not ended. */
  get isInTrailers(): boolean {
    return this.#decoder instanceof ChunkedDecoder && this.#decoder.isInTrailers;
  }

  /** Whether a request waits to begin or to go on, until `takeTurn`. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  takeTurn(): void {
    this.#isWaiting = false;
    // Bytes that were read before the socket was paused are received by `#onSocketData`.
    if (this.#keptBytes === 0 && this.#mayProcess) this.#socket.read();
    this.#pump();
  }

  /** Closes the connection if no request is in progress, and none waits. */
  closeIfIdle(): void {
    if (this.#isWaiting) return;
    if (this.#exchange === undefined && this.#state === "open") this.#socket.destroySoon();
  }

  /** Closes the connection when the written bytes have been passed to the kernel. */
  closeSoon(): void {
    this.#socket.destroySoon();
  }

  /** Closes the connection after a timeout. Called every `sweepMs`. */
  sweep(): void {
    this.#sweeps = this.#isWaiting ? 0 : this.#sweeps + 1;
    if (this.#state === "lingering") {
      if (this.#sweeps > lingerSweeps) this.#socket.destroy();
    } else if (this.#state === "ending" && this.#exchange === undefined) {
      // The client does not read the response to a rejected head.
      if (this.#sweeps > lingerSweeps) this.#socket.destroy();
    } else if (this.#exchange === undefined) {
      this.#sweepHead();
    } else if (!this.#exchange.hasEnded || this.#decoder === undefined) {
      this.#sweeps = 0;
    } else if (this.#sweeps > keepAliveSweeps) {
      this.#socket.destroy();
    }
  }

  #sweepHead(): void {
    if (this.#head.length === 0) {
      if (this.#sweeps > keepAliveSweeps) this.#socket.destroySoon();
    } else if (this.#sweeps > headSweeps) {
      this.#reject({ status: 408, message: "the request head has not ended in time" }, "");
    }
  }

  // The methods for the exchange.

  get body(): IncomingBody | undefined {
    return this.#decoder === undefined ? undefined : this;
  }

  get isReceiving(): boolean {
    return this.#decoder !== undefined;
  }

  get unreadBytes(): number {
    return this.#socket.writableLength;
  }

  nowMs(): number {
    return this.#owner.nowMs();
  }

  isLast(): boolean {
    // A client that still waits for 100 (Continue) may or may not send its body, so the next bytes are ambiguous.
    // When the server drains, requests that have been received still get their responses.
    if (this.#awaitsContinue || (this.#owner.isLeaving && this.#keptBytes === 0)) this.#isLast = true;
    return this.#isLast;
  }

  closeAfterResponse(): void {
    this.#isLast = true;
  }

  write(bytes: Buffer | string, isExclusive: boolean): boolean {
    if (typeof bytes === "string") return this.#socket.write(bytes, "latin1");
    return isExclusive ? writeExclusive(this.#socket, bytes) : this.#socket.write(bytes);
  }

  writeLast(bytes: Buffer | string): void {
    if (bytes.length === 0 && this.#socket.writableLength === 0) process.nextTick(this.#onResponseWritten);
    else if (typeof bytes === "string") this.#socket.write(bytes, "latin1", this.#onResponseWritten);
    else this.#socket.write(bytes, this.#onResponseWritten);
  }

  writeParts(parts: readonly (Buffer | string)[], isExclusive: boolean, isLast: boolean): boolean {
    this.#socket.cork();
    let isFlowing = true;
    for (const part of parts) isFlowing = this.write(part, isExclusive);
    if (isLast) this.writeLast("");
    this.#socket.uncork();
    return isFlowing;
  }

  switchProtocols(head: string): SwitchedStream {
    const socket = this.#socket;
    this.#state = "switched";
    socket.off("data", this.#onSocketData).off("end", this.#onSocketEnd).off("drain", this.#onSocketDrain);
    socket.pause();
    this.write(head, false);
    this.#owner.onEnd(this);
    const [rest, later] = [this.#unread, this.#later.take()];
    if (later !== undefined) socket.unshift(later);
    if (rest !== undefined) socket.unshift(rest);
    return socket;
  }

  destroy(isAbrupt: boolean): void {
    // A TLS socket cannot be reset. An end without an alert has the same meaning (RFC 8446 §6.1).
    if (isAbrupt && !("encrypted" in this.#socket)) this.#socket.resetAndDestroy();
    else this.#socket.destroy();
  }

  // The body of the request in progress.

  get isPaused(): boolean {
    return this.#isPaused;
  }

  read(receiver: BodyReceiver): void {
    if (this.#decoder === undefined) throw new Error("the body has ended, or there is none");
    this.#bodyReceiver = receiver;
    if (this.#awaitsContinue) {
      this.#awaitsContinue = false;
      if (this.#exchange?.hasResponded === false) this.write("HTTP/1.1 100 Continue\r\n\r\n", false);
    }
    this.#pumpLater();
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#pumpLater();
  }

  onData(bytes: Buffer): void {
    // Otherwise another part of the read may be the next request.
    this.#bodyReceiver?.onData(bytes, bytes.length === bytes.buffer.byteLength);
  }

  onEnd(trailers: readonly string[]): void {
    const receiver = this.#takeBody();
    receiver?.onEnd(trailers);
    if (this.#exchange?.hasClosed === true) this.#next();
  }

  #takeBody(): BodyReceiver | undefined {
    const receiver = this.#bodyReceiver;
    this.#decoder = undefined;
    this.#bodyReceiver = undefined;
    this.#awaitsContinue = false;
    this.resume();
    return receiver;
  }

  // The events of the socket.

  readonly #onSocketData = (bytes: Buffer): void => {
    if (this.#state !== "open") return;
    // The receiver of a body may release the memory of `bytes`, which are empty then.
    const { length } = bytes;
    if (this.#keptBytes === 0) this.#process(bytes);
    else this.#keep(bytes);
    if (length >= this.#longRead && this.#decoder !== undefined) this.#countRead(length);
    if (this.heldBytes > 0 || this.isInTrailers) this.#receiver.onHolding();
  };

  #countRead(bytes: number): void {
    if (this.#state !== "open" || this.#owner.turns?.mayReadOn(bytes) !== false) return;
    this.#wait(this.#owner.turns);
    this.#socket.pause();
  }

  /** Closes the connection when the client closes its side, which looks the same as a closed socket. */
  readonly #onSocketEnd = (): void => {
    if (this.#exchange === undefined || this.#exchange.hasEnded) {
      this.#isLast = true;
      this.#socket.destroySoon();
    } else {
      this.#socket.destroy();
    }
  };

  readonly #onSocketDrain = (): void => {
    this.#guard(() => this.#exchange?.onDrain());
  };

  readonly #onSocketClose = (hadError: boolean): void => {
    const wasSwitched = this.#state === "switched";
    this.#state = "closed";
    if (!wasSwitched) this.#owner.onEnd(this);
    if (this.#isWaiting) this.#owner.turns?.leave(this);
    this.#guard(() => {
      this.#takeBody()?.onAborted();
      this.#exchange?.close(wasSwitched && !hadError);
    });
  };

  readonly #onResponseWritten = (error?: Error | null): void => {
    // "close" follows.
    if (error != null || this.#state === "closed") return;
    this.#guard(() => this.#exchange?.close(true));
    if (this.#isLast) this.#linger();
    else if (this.#decoder === undefined) this.#next();
    else this.#dropBody();
  };

  /** Reads and drops the rest of the body, to reach the next request. */
  #dropBody(): void {
    this.#sweeps = 0;
    this.#bodyReceiver ??= dropped;
    this.#isPaused = false;
    this.#pumpLater();
    this.#pumpLater();
  }

  #next(): void {
    this.#exchange = undefined;
    this.#sweeps = 0;
    if (this.#owner.isClosing) this.#linger();
    else if (!this.#isProcessing && this.#keptBytes > 0) this.#pump();
  }

  /**
   * Closes the connection. If the client may still send, its bytes are read: otherwise the kernel would respond to them
   * with a reset, which can reach the client before it has read the response (RFC 9112 §9.6).
   */
  #linger(): void {
    const maySend = this.#decoder !== undefined || this.#keptBytes > 0 || this.#state === "ending";
    this.#takeBody()?.onAborted();
    this.#unread = undefined;
    this.#later.take();
    this.#state = "lingering";
    this.#sweeps = 0;
    if (maySend) {
      this.#socket.end();
      this.#socket.resume();
    } else {
      this.#socket.destroySoon();
    }
  }

  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#socket.destroy();
    this.#receiver.onFault(error);
  }

  #process(bytes: Buffer): void {
    this.#isProcessing = true;
    // The receiver of a body may release the memory of `bytes`, which are empty then.
    const { length } = bytes;
    let at = 0;
    try {
      while (at < length && this.#state === "open") {
        if (this.#decoder !== undefined) {
          if (this.#bodyReceiver === undefined || this.#isPaused) break;
          if (length - at < shortBodyBytes && !this.#mayBegin()) break;
          at = this.#decode(this.#decoder, bytes, at);
        } else if (this.#exchange === undefined && this.#mayBegin()) {
          at = this.#readHead(bytes, at);
        } else {
          break;
        }
      }
      if (at < length) this.#keepRest(at === 0 ? bytes : bytes.subarray(at));
    } catch (error) {
      this.#fail(error);
    }
    this.#isProcessing = false;
  }

  /** Whether a head or a short part of a body may be read. Otherwise its bytes wait, until `takeTurn`. */
  #mayBegin(): boolean {
    const { turns } = this.#owner;
    if (turns === undefined || turns.mayBegin()) return true;
    this.#wait(turns);
    return false;
  }

  #wait(turns: RequestTurns): void {
    this.#isWaiting = true;
    turns.wait(this);
  }

  #keepRest(rest: Buffer): void {
    if (this.#state === "open") this.#setUnread(rest);
    else if (this.#state === "switched") this.#socket.unshift(rest);
  }

  /** Keeps bytes that were received after other unparsed bytes. */
  #keep(bytes: Buffer): void {
    this.#later.push(bytes);
    if (this.#keptBytes >= maxUnreadBytes) this.#socket.pause();
  }

  #setUnread(bytes: Buffer): void {
    this.#unread = bytes;
    if (this.#keptBytes >= maxUnreadBytes) this.#socket.pause();
  }

  get #keptBytes(): number {
    return (this.#unread?.length ?? 0) + this.#later.length;
  }

  #takeKept(): Buffer | undefined {
    const bytes = this.#unread ?? this.#later.take();
    this.#unread = undefined;
    return bytes;
  }

  #pumpLater(): void {
    if (this.#isPumpScheduled) return;
    this.#isPumpScheduled = true;
    process.nextTick(pump, this);
  }

  /** Processes the kept bytes, and reads more. */
  pump(): void {
    this.#isPumpScheduled = false;
    this.#pump();
  }

  #pump(): void {
    while (this.#mayProcess) {
      const bytes = this.#takeKept();
      if (bytes === undefined) break;
      this.#process(bytes);
      if (this.#unread !== undefined) break;
    }
    if (this.#isWaiting) return;
    if (this.#mayProcess && this.#keptBytes < maxUnreadBytes && this.#socket.isPaused()) this.#socket.resume();
  }

  get #mayProcess(): boolean {
    return this.#state === "open" && !this.#isPaused;
  }

  #decode(decoder: BodyDecoder, bytes: Buffer, start: number): number {
    this.#sweeps = 0;
    const { length } = bytes;
    try {
      const end = decoder.decode(bytes, start, this);
      return end === -1 ? length : end;
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      this.#rejectBody(error);
      return length;
    }
  }

  #rejectBody({ status, message }: MessageError): void {
    this.#isLast = true;
    this.#state = "ending";
    const exchange = this.#exchange;
    const hasEnded = exchange?.hasEnded === true;
    const receiver = this.#takeBody();
    if (hasEnded) this.#socket.destroySoon();
    else exchange?.onBodyRejected(status === 431 ? 431 : 400, message);
    receiver?.onAborted();
  }

  /** @returns the position after the bytes that were read. */
  #readHead(bytes: Buffer, start: number): number {
    let text = "";
    try {
      const begin = this.#head.length === 0 ? skipEmptyLine(bytes, start) : start;
      if (begin === bytes.length) return begin;
      if (this.#head.length === 0) this.#beginHead(bytes, begin);
      const found = this.#head.read(bytes, begin);
      if (found === undefined) return bytes.length;
      ({ text } = found);
      this.#begin(parseRequestHead(text, this.#owner.limits));
      return found.end;
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      this.#reject(error, text);
      return bytes.length;
    }
  }

  /** Rejects bytes that cannot begin a head, such as a TLS handshake. */
  #beginHead(bytes: Buffer, start: number): void {
    this.#sweeps = 0;
    if (tokenCharacters[bytes[start] ?? 0] !== 1) throw new MessageError(400, "malformed request line");
  }

  #begin(head: RequestHead): void {
    const { bodyLength } = head;
    if (bodyLength === "chunked") this.#decoder = new ChunkedDecoder(this.#owner.limits);
    else if (bodyLength > 0) this.#decoder = new LengthDecoder(bodyLength);
    this.#awaitsContinue = head.awaitsContinue;
    if (!head.keepsAlive) this.#isLast = true;
    const exchange = new Http1Exchange(this, head);
    this.#exchange = exchange;
    exchange.listen(this.#receiver.onRequest(exchange));
  }

  #reject({ status, message }: Pick<RejectedHead, "status" | "message">, text: string): void {
    this.#isLast = true;
    this.#state = "ending";
    this.#sweeps = 0;
    const body = `${message}\n`;
    const fields = ["content-type", "text/plain", "content-length", String(body.length)];
    this.writeLast(`${renderHead(status, fields, this.nowMs()).text}connection: close\r\n\r\n${body}`);
    this.#receiver.onRejected({ status, message, ...describeHead(text) });
  }
}

/** The receiver of a body that is dropped, because its request has its response. */
const dropped: BodyReceiver = { onData: ignore, onEnd: ignore, onAborted: ignore };

function ignore(): void {
  // The bytes are dropped.
}

/** A named function for `process.nextTick`, so that a call allocates no closure. */
function pump(connection: Http1ServerConnection): void {
  connection.pump();
}

/** Returns the position after an empty line before a request. Some clients send one after a body (RFC 9112 §2.2). */
function skipEmptyLine(bytes: Buffer, start: number): number {
  return bytes[start] === cr && bytes[start + 1] === lf ? start + 2 : start;
}

/** Parses a rejected head for the log, as far as possible. */
function describeHead(text: string): Pick<RejectedHead, "method" | "target" | "httpVersion" | "fields"> {
  const [line = "", ...lines] = text.split("\r\n");
  const [, method = "", target = "", httpVersion = ""] = /^(\S+) (\S+) HTTP\/(\d\.\d)$/.exec(line) ?? [];
  const fields = lines.flatMap((each) => {
    const colon = each.indexOf(":");
    return colon <= 0 ? [] : [each.slice(0, colon), each.slice(colon + 1).trim()];
  });
  return { method, target, httpVersion, fields };
}
