/** HTTP/1.0 and 1.1 towards the client, over node:http, whose parser and framing we trust and do not repeat. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { trailersRejected } from "./chunked-body.ts";
import { fieldOf, removeField } from "./fields.ts";
import type { Connection, DrainPhase } from "./connection.ts";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import type { Http1Pipeline } from "./http1-pipeline.ts";
import type { RequestHead } from "./request-head.ts";
import type { TunnelEnd } from "./tunnel.ts";

/**
 * Up to this many bytes a body is written as text together with the head: Node joins two strings into one write, where
 * a string and a buffer take a gathering write of two pieces.
 */
const joinedBodyBytes = 8 * 1024;

/** A connection that speaks HTTP/1.0 or 1.1. */
export interface Http1Connection extends Connection {
  /** The order of its requests. */
  readonly pipeline: Http1Pipeline;
}

/** The properties of one HTTP/1 request beside Node's own objects. */
export interface Http1Options {
  /** The head after normalization. */
  readonly head: RequestHead;
  /** The connection that the request arrived on. */
  readonly connection: Http1Connection;
  /** The client sent `Expect: 100-continue` and holds its body back. */
  readonly awaitsContinue: boolean;
  /** The client asks for this protocol; `response` then has been given the socket, which node:http has let go. */
  readonly upgrade: string | undefined;
  /** Unless the server is `serving`, responses ask the client to leave the connection. */
  readonly phase: () => DrainPhase;
}

/** A request of HTTP/1.0 or 1.1. */
export class Http1Downstream implements Downstream {
  readonly head: RequestHead;
  readonly httpVersion: string;
  readonly connection: Http1Connection;
  readonly upgrade: string | undefined;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #phase: () => DrainPhase;
  #awaitsContinue: boolean;
  #bodyTaken = false;
  #isSwitched = false;

  constructor(request: IncomingMessage, response: ServerResponse, options: Http1Options) {
    this.head = options.head;
    this.httpVersion = request.httpVersion;
    this.connection = options.connection;
    this.upgrade = options.upgrade;
    this.#request = request;
    this.#response = response;
    this.#awaitsContinue = options.awaitsContinue;
    this.#phase = options.phase;
  }

  listen(events: DownstreamEvents): void {
    const response = this.#response;
    const { socket } = this.#request;
    if (this.upgrade !== undefined) {
      this.#listenToSocket(socket, events);
    } else {
      response.on("close", () => {
        events.onClose(response.writableFinished);
        this.#beginNext(socket);
      });
    }
    response.on("drain", () => events.onDrain());
    // If a client aborts its upload, "close" follows.
    const { isInChunks } = this.connection.heads;
    this.#request.on("error", isInChunks ? (error) => this.#onBodyError(error, events) : ignore);
  }

  get body(): Readable | undefined {
    if (this.#request.readableEnded || this.upgrade !== undefined) return undefined;
    this.#bodyTaken = true;
    if (this.#awaitsContinue) {
      this.#awaitsContinue = false;
      this.#response.writeContinue();
    }
    return this.#request;
  }

  respond(status: number, headers: string[], body: Buffer | string): void {
    const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    if (this.#needsLength(status) && fieldOf(headers, "content-length") === undefined) {
      headers.push("content-length", String(bytes));
    }
    this.start(status, headers);
    if (typeof body === "string") this.#response.end(body);
    else this.#endWith(body);
  }

  forward(status: number, headers: string[], body: Buffer): void {
    this.start(status, headers);
    this.#endWith(body);
  }

  #endWith(body: Buffer): void {
    const response = this.#response;
    if (body.length === 0) response.end();
    else if (body.length <= joinedBodyBytes) response.end(body.toString("latin1"), "latin1");
    else response.end(body);
  }

  start(status: number, headers: string[]): void {
    if (this.#mustClose(status)) {
      headers.push("connection", "close");
      this.connection.pipeline.close();
    }
    // Node would discard the unread part of a body, and its end would not be found.
    if (!this.#bodyTaken && this.connection.heads.isInChunks) this.#request.resume();
    // Node rejects an announcement of trailers if none can follow. A backend may announce them and send none.
    if (!this.#canHaveTrailers(status, headers)) removeField(headers, "trailer");
    this.#response.writeHead(status, headers);
  }

  write(chunk: Buffer): boolean {
    return this.#response.write(chunk);
  }

  end(trailers: string[]): void {
    if (trailers.length > 0) this.#response.addTrailers(pairs(trailers));
    this.#response.end();
  }

  switchProtocols(headers: string[]): TunnelEnd {
    const { socket } = this.#request;
    this.#isSwitched = true;
    removeField(headers, "trailer");
    headers.push("connection", "upgrade", "upgrade", this.upgrade ?? "");
    this.#response.writeHead(101, headers);
    this.#response.flushHeaders();
    this.#response.detachSocket(socket);
    return socket;
  }

  get isReceiving(): boolean {
    return this.upgrade !== undefined || !this.#request.complete;
  }

  get unreadBytes(): number {
    return this.#request.socket.writableLength;
  }

  reset(): void {
    if (this.#isSwitched) {
      this.#request.socket.destroy();
      return;
    }
    // Bytes that were written in this turn wait for its end, and would be dropped.
    this.#response.uncork();
    this.#response.destroy();
  }

  #onBodyError(error: Error, events: DownstreamEvents): void {
    if (error !== trailersRejected) return;
    this.connection.pipeline.cut();
    if (this.#response.writableEnded) this.#request.socket.destroy();
    else events.onTrailersRejected();
  }

  #beginNext(socket: Socket): void {
    const { pipeline } = this.connection;
    // Node ends a connection if the client requests it, or cannot otherwise detect the end of a response.
    if (!socket.writable) pipeline.close();
    pipeline.next();
    // A response with a head that was sent before the drain has not asked the client to leave.
    if (this.#phase() === "closing" && !pipeline.isBusy) socket.end();
  }

  /** As node:http for other requests: emits the end, and treats a client that ends its side early as disconnected. */
  #listenToSocket(socket: Socket, events: DownstreamEvents): void {
    const response = this.#response;
    socket.once("end", () => {
      if (!this.#isSwitched) socket.destroy();
    });
    socket.once("close", (hadError) => events.onClose(this.#isSwitched ? !hadError : response.writableFinished));
  }

  #mustClose(status: number): boolean {
    const { pipeline } = this.connection;
    if (pipeline.isLast || this.#leavesBodyUnsent() || this.upgrade !== undefined) return true;
    // While the server drains, requests that have arrived still get a response.
    const phase = this.#phase();
    if (phase === "closing" || (phase === "leaving" && !pipeline.hasWaiting)) return true;
    // The rest of the request is not waited for (RFC 9110 §15.5.9).
    return status === 408;
  }

  /** The length of what a GET would have brought is not known to HEAD; 204 and 304 have no body (RFC 9110 §6.4.1). */
  #needsLength(status: number): boolean {
    return this.head.method !== "HEAD" && status !== 204 && status !== 304;
  }

  /** Only chunks end with a trailer section (RFC 9112 §7.1). */
  #canHaveTrailers(status: number, headers: readonly string[]): boolean {
    return this.httpVersion !== "1.0" && this.#needsLength(status) && fieldOf(headers, "content-length") === undefined;
  }

  /** The client may still send the body that it announced, so what follows on the connection could be either. */
  #leavesBodyUnsent(): boolean {
    return this.#awaitsContinue && !this.#bodyTaken;
  }
}

function pairs(flat: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) list.push([flat[i] ?? "", flat[i + 1] ?? ""]);
  return list;
}

function ignore(): void {
  // Nothing to do: the response's "close" reports it.
}
