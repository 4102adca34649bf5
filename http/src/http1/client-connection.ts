/**
 * A connection to an HTTP/1.1 server (RFC 9112): one request after the other, without pipelining. A malformed response
 * ends the connection. Bytes after a response end it too, because they could be read as the next response.
 */
import type { Socket } from "node:net";
import type { ClientExchange, ClientExchangeEvents, ClientFailure, ClientRequest, FieldList } from "../ports.ts";
import { type Swept, sweepMs } from "../sweep.ts";
import { Upload, type UploadOwner } from "../upload.ts";
import {
  type BodyDecoder,
  type BodySink,
  ChunkedDecoder,
  type ChunkLimits,
  CloseDecoder,
  LengthDecoder,
} from "./body-decoder.ts";
import { BodyWriter } from "./body-writer.ts";
import { joinedBytes, joinText } from "./field-text.ts";
import { HeadReader } from "./head-reader.ts";
import { MessageError } from "./message-error.ts";
import { type RenderedRequest, renderRequest } from "./request-text.ts";
import { parseResponseHead, type ResponseHead } from "./response-head.ts";

/** Bounds of responses. */
export interface Http1ClientLimits extends ChunkLimits {
  /** Maximum length of a head in bytes. */
  readonly headBytes: number;
}

/** The default bounds: 64 KiB of head, 2,000 fields, 64 KiB of trailers. */
export const defaultHttp1ClientLimits: Http1ClientLimits = {
  headBytes: 64 * 1024,
  fields: 2_000,
  trailerBytes: 64 * 1024,
};

/** The services of a connection. */
export interface Http1ClientOptions {
  readonly limits: Http1ClientLimits;
  /** Called once, when the socket has closed. */
  readonly onClosed: () => void;
}

/**
 * Time for which an idle connection is reused, unless the server names one in Keep-Alive. It is less than the 5 s after
 * which many servers close it, because a request that crosses the close fails.
 */
const keepAliveSeconds = 4;
/** An idle connection is closed this long before the server closes it. */
const keepAliveMarginSeconds = 1;
const maxKeepAliveSeconds = 600;

/** The first byte of every response: `H` of `HTTP`. */
const firstByte = 0x48;

/** `ending`: the server has closed an idle connection. `switched`: the socket belongs to the receiver of the switch. */
type ConnectionState = "open" | "ending" | "switched" | "closed";

/** A connected socket and the request in progress. */
export class Http1ClientConnection implements Swept {
  readonly #socket: Socket;
  readonly #options: Http1ClientOptions;
  readonly #head: HeadReader;
  #state: ConnectionState = "open";
  #exchange: Exchange | undefined;
  #error: Error | undefined;
  /**
   * Sweeps without progress after which the request in progress fails, or the idle connection is closed. 0 is
   * unlimited.
   */
  #maxSweeps = 0;
  /** Sweeps since the last progress. */
  #sweeps = 0;
  #timeoutMs = 0;
  /** Whether the received bytes remain valid after they are processed. */
  #keepsBytes = false;

  /** @param socket connected, and not read before. Its owner passes received bytes to `receive` (`socket-reads.ts`). */
  constructor(socket: Socket, options: Http1ClientOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#head = new HeadReader(options.limits.headBytes);
    socket
      .on("end", this.#onSocketEnd)
      .on("drain", this.#onSocketDrain)
      .on("error", this.#onSocketError)
      .on("close", this.#onSocketClose);
  }

  /** Whether another request may be sent now. */
  get isAvailable(): boolean {
    return this.#state === "open" && this.#exchange === undefined;
  }

  /**
   * Sends a request. The events begin after this call.
   *
   * @param idleTimeoutMs maximum time without a byte in either direction, exact to a second; 0 is unlimited.
   * @throws `TypeError` for a request that is not valid in HTTP/1.1. Nothing is sent then.
   */
  send(request: ClientRequest, idleTimeoutMs: number, events: ClientExchangeEvents): ClientExchange {
    if (this.#exchange !== undefined) throw new Error("a request is in progress on the connection");
    const rendered = renderRequest(request);
    const exchange = new Exchange(this, request, events);
    this.#exchange = exchange;
    this.#timeoutMs = idleTimeoutMs;
    this.#watch(Math.ceil(idleTimeoutMs / sweepMs));
    this.#write(request, rendered, exchange);
    return exchange;
  }

  #write({ body }: ClientRequest, { text, bodyLength }: RenderedRequest, exchange: Exchange): void {
    const socket = this.#socket;
    if (body !== undefined && !Buffer.isBuffer(body)) {
      exchange.upload = new Upload(body, bodyLength, exchange);
      exchange.writer = new BodyWriter(socket, bodyLength === undefined);
      process.nextTick(beginUpload, socket, text, exchange);
    } else if (body === undefined || body.length === 0) {
      socket.write(text, "latin1");
    } else if (body.length <= joinedBytes) {
      socket.write(joinText(text, body, ""));
    } else {
      socket.cork();
      socket.write(text, "latin1");
      socket.write(body);
      socket.uncork();
    }
  }

  sweep(): void {
    if (this.#state !== "open" || this.#maxSweeps === 0) return;
    this.#sweeps++;
    if (this.#exchange === undefined) {
      if (this.#sweeps >= this.#maxSweeps) this.destroy();
    } else if (this.#awaitsOthers(this.#exchange)) {
      this.#sweeps = 0;
    } else if (this.#sweeps > this.#maxSweeps) {
      this.fail({ kind: "timeout", message: `the server has sent nothing for ${this.#timeoutMs} ms` });
    }
  }

  /** Whether the receiver of the response has paused it, or the source of the body has nothing to send. */
  #awaitsOthers({ upload }: Exchange): boolean {
    return this.#socket.isPaused() || (upload?.isOver === false && this.#socket.writableLength === 0);
  }

  /** Closes the connection at once. A request in progress fails. */
  destroy(): void {
    this.#state = "closed";
    this.#socket.destroy();
  }

  // The methods for the exchange.

  get keepsBytes(): boolean {
    return this.#keepsBytes;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.progressed();
    this.#socket.resume();
  }

  /** Ends the exchange in progress and the connection, without events. */
  abort(): void {
    this.#exchange = undefined;
    this.#reset();
  }

  /**
   * Closes the connection by a reset. The local port of a connection that this side ends is not available for a minute,
   * and a client that cancels its requests could use up those to an endpoint.
   */
  #reset(): void {
    const socket = this.#socket;
    // A TLS socket cannot be reset, and neither can one whose end is being sent.
    if ("encrypted" in socket || socket.writableEnded || socket.destroyed) {
      this.destroy();
    } else {
      this.#state = "closed";
      socket.resetAndDestroy();
    }
  }

  /** Restarts the idle timeout, because bytes were sent or received. */
  progressed(): void {
    this.#sweeps = 0;
  }

  fail(failure: ClientFailure): void {
    const exchange = this.#exchange;
    this.abort();
    exchange?.fail(failure);
  }

  // The events of the socket.

  /** Receives bytes of the socket, as a `ReceiveBytes`. */
  receive(bytes: Buffer, isKept: boolean): boolean {
    if (this.#state === "switched") return this.#socket.push(isKept ? bytes : Buffer.from(bytes));
    if (this.#state !== "open") return true;
    this.#keepsBytes = isKept;
    this.progressed();
    try {
      this.#process(bytes);
    } catch (error) {
      const isMalformed = error instanceof MessageError;
      const cause = isMalformed ? `malformed response: ${error.message}` : `internal error: ${String(error)}`;
      this.fail({ kind: "reset", message: cause });
    }
    return true;
  }

  #process(bytes: Buffer): void {
    // The receiver of the response may release the memory of `bytes`, which are empty then.
    const { length } = bytes;
    let at = 0;
    while (at < length) {
      const exchange = this.#exchange;
      if (exchange === undefined) {
        // These bytes respond to no request.
        this.destroy();
        return;
      }
      at = exchange.decoder === undefined ? this.#readHead(exchange, bytes, at) : exchange.decode(bytes, at);
      if (this.#state !== "open") return;
      if (exchange.hasResponse) this.#complete(exchange, at < length);
    }
  }

  /** @returns the position after the bytes that were read. */
  #readHead(exchange: Exchange, bytes: Buffer, start: number): number {
    const { limits } = this.#options;
    if (this.#head.length === 0 && bytes[start] !== firstByte) throw new MessageError(400, "malformed status line");
    const found = this.#head.read(bytes, start);
    if (found === undefined) return bytes.length;
    const head = parseResponseHead(found.text, exchange.method, limits);
    if (head.status === 101) this.#switchProtocols(exchange, head, bytes.subarray(found.end));
    else if (head.status < 200) exchange.events.onInterimHead(head.status, head.fields);
    else exchange.begin(head, limits);
    return found.end;
  }

  #switchProtocols(exchange: Exchange, head: ResponseHead, rest: Buffer): void {
    if (exchange.upgrade === undefined || head.upgrade?.toLowerCase() !== exchange.upgrade.toLowerCase()) {
      throw new MessageError(400, "the server has switched to another protocol than the requested one");
    }
    const socket = this.#socket;
    this.#state = "switched";
    this.#exchange = undefined;
    socket.off("end", this.#onSocketEnd).off("drain", this.#onSocketDrain);
    socket.pause();
    if (rest.length > 0) socket.push(this.#keepsBytes ? rest : Buffer.from(rest));
    exchange.events.onSwitched(head.fields, socket);
  }

  /** @param hasSurplus whether bytes follow the response. */
  #complete(exchange: Exchange, hasSurplus: boolean): void {
    this.#exchange = undefined;
    if (exchange.keepsAlive && !hasSurplus && exchange.upload?.isOver !== false) {
      this.#watch(exchange.keepAliveSeconds);
      if (this.#socket.isPaused()) this.#socket.resume();
    } else {
      const isSent = exchange.upload?.isOver !== false;
      exchange.upload?.cancel();
      if (isSent) this.destroy();
      else this.#reset();
    }
    exchange.events.onEnd(exchange.trailers);
  }

  readonly #onSocketEnd = (): void => {
    if (this.#state !== "open") return;
    const exchange = this.#exchange;
    if (exchange?.decoder instanceof CloseDecoder) {
      exchange.hasResponse = true;
      this.#complete(exchange, false);
    } else if (exchange === undefined) {
      this.#state = "ending";
    } else {
      const part = exchange.decoder === undefined ? "before its response" : "before the end of its response";
      this.fail({ kind: "reset", message: `the server has closed the connection ${part}` });
    }
  };

  readonly #onSocketDrain = (): void => {
    const upload = this.#exchange?.upload;
    if (upload === undefined || upload.isOver) return;
    this.progressed();
    upload.onDrain();
  };

  readonly #onSocketError = (error: Error): void => {
    this.#error = error;
  };

  readonly #onSocketClose = (): void => {
    const message = this.#error === undefined ? "the connection was closed" : describeError(this.#error);
    if (this.#exchange !== undefined) this.fail({ kind: "reset", message });
    this.#options.onClosed();
  };

  #watch(maxSweeps: number): void {
    this.#sweeps = 0;
    this.#maxSweeps = maxSweeps;
  }
}

/** One request, and the progress of its response. */
class Exchange implements ClientExchange, UploadOwner, BodySink {
  /** While it is paused, the socket is not read. */
  readonly bufferedBytes = 0;
  readonly #connection: Http1ClientConnection;
  readonly events: ClientExchangeEvents;
  readonly method: string;
  readonly upgrade: string | undefined;
  /** The upload of a body that arrives in parts; undefined for others. */
  upload: Upload | undefined;
  writer: BodyWriter | undefined;
  /** The decoder of the response body; undefined before the head, and if there is no body. */
  decoder: BodyDecoder | undefined;
  /** Whether the response is complete. */
  hasResponse = false;
  /** Whether the server keeps the connection open after the response, and how long. */
  keepsAlive = false;
  keepAliveSeconds = keepAliveSeconds;
  trailers: readonly string[] = [];
  #isOver = false;

  constructor(connection: Http1ClientConnection, { method, upgrade }: ClientRequest, events: ClientExchangeEvents) {
    this.#connection = connection;
    this.method = method;
    this.upgrade = upgrade;
    this.events = events;
  }

  /** Whether the exchange has ended. Its methods then have no effect on the connection. */
  get #hasEnded(): boolean {
    return this.#isOver || this.hasResponse;
  }

  pause(): void {
    if (!this.#hasEnded) this.#connection.pause();
  }

  resume(): void {
    if (!this.#hasEnded) this.#connection.resume();
  }

  abort(): void {
    if (this.#hasEnded) return;
    this.#isOver = true;
    this.upload?.cancel();
    this.#connection.abort();
  }

  fail(failure: ClientFailure): void {
    this.#isOver = true;
    this.upload?.cancel();
    this.events.onFailure(failure);
  }

  begin(head: ResponseHead, limits: Http1ClientLimits): void {
    const { bodyLength, keepAliveSeconds } = head;
    this.keepsAlive = head.keepsAlive;
    if (keepAliveSeconds !== undefined) {
      this.keepAliveSeconds = Math.min(keepAliveSeconds - keepAliveMarginSeconds, maxKeepAliveSeconds);
      if (this.keepAliveSeconds <= 0) this.keepsAlive = false;
    }
    if (bodyLength === "chunked") this.decoder = new ChunkedDecoder(limits);
    else if (bodyLength === "close") this.decoder = new CloseDecoder();
    else if (bodyLength > 0) this.decoder = new LengthDecoder(bodyLength);
    this.events.onHead(head.status, head.fields);
    if (bodyLength === 0) this.hasResponse = true;
  }

  /** @returns the position after the part of the body in `bytes`. */
  decode(bytes: Buffer, start: number): number {
    const { length } = bytes;
    const end = this.decoder?.decode(bytes, start, this) ?? start;
    return end === -1 ? length : end;
  }

  onData(bytes: Buffer): void {
    // The rest of a read that is kept has no other reader: a head is copied, and nothing may follow the response.
    if (!this.#isOver) this.events.onData(this.#connection.keepsBytes ? bytes : Buffer.from(bytes), true);
  }

  onEnd(trailers: readonly string[]): void {
    this.hasResponse = true;
    this.trailers = trailers;
  }

  sendBody(bytes: Buffer, isExclusive: boolean): boolean {
    this.#connection.progressed();
    return this.writer?.write(bytes, isExclusive) ?? true;
  }

  endBody(trailers: FieldList): void {
    try {
      this.writer?.end(trailers);
    } catch (error) {
      this.onUploadFailed("aborted", `the trailers of the request cannot be sent: ${String(error)}`);
    }
  }

  onUploadFailed(kind: "aborted" | "reset", message: string): void {
    if (!this.#hasEnded) this.#connection.fail({ kind, message });
  }
}

/** A named function for `process.nextTick`, so that an upload allocates no closure. */
function beginUpload(socket: Socket, text: string, { upload }: Exchange): void {
  if (upload === undefined || upload.isOver) return;
  socket.cork();
  socket.write(text, "latin1");
  upload.start();
  socket.uncork();
}

/** Returns the message of an error of a socket, with its code. */
function describeError(error: Error & { readonly code?: unknown }): string {
  return typeof error.code === "string" ? `${error.code}: ${error.message}` : error.message;
}
