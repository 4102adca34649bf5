/** HTTP/1.0 and 1.1 towards the client, over node:http, whose parser and framing we trust and do not repeat. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import { peerAddress } from "./peer-address.ts";
import type { RequestHead } from "./request-head.ts";

/**
 * Up to this many bytes a body is written as text together with the head: Node joins two strings into one write, where
 * a string and a buffer take a gathering write of two pieces, which costs a tenth of a whole small request.
 */
const joinedBodyBytes = 8 * 1024;

export class Http1Downstream implements Downstream {
  readonly head: RequestHead;
  readonly httpVersion: string;
  readonly sourceAddress: string;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #isDraining: () => boolean;
  #awaitsContinue: boolean;
  #bodyTaken = false;

  /**
   * @param awaitsContinue the client sent `Expect: 100-continue` and holds its body back.
   * @param isDraining when true, answers ask the client to leave the connection.
   */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    options: { readonly head: RequestHead; readonly awaitsContinue: boolean; readonly isDraining: () => boolean },
  ) {
    this.head = options.head;
    this.httpVersion = request.httpVersion;
    this.sourceAddress = peerAddress(request.socket);
    this.#request = request;
    this.#response = response;
    this.#awaitsContinue = options.awaitsContinue;
    this.#isDraining = options.isDraining;
  }

  listen(events: DownstreamEvents): void {
    const response = this.#response;
    response.on("close", () => {
      events.onClose(response.writableFinished);
      // An answer whose head left before the drain began has not asked the client to leave.
      if (this.#isDraining()) this.#request.socket.end();
    });
    response.on("drain", () => events.onDrain());
    // A client that breaks its upload off: "close" follows and tells.
    this.#request.on("error", ignore);
  }

  get body(): Readable | undefined {
    if (this.#request.readableEnded) return undefined;
    this.#bodyTaken = true;
    if (this.#awaitsContinue) {
      this.#awaitsContinue = false;
      this.#response.writeContinue();
    }
    return this.#request;
  }

  respond(status: number, headers: string[], body: Buffer | string): void {
    const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    if (this.#needsLength(status) && !hasContentLength(headers)) headers.push("content-length", String(bytes));
    this.start(status, headers);
    if (bytes === 0) this.#response.end();
    else if (typeof body === "string") this.#response.end(body);
    else if (bytes <= joinedBodyBytes) this.#response.end(body.toString("latin1"), "latin1");
    else this.#response.end(body);
  }

  start(status: number, headers: string[]): void {
    if (this.#isDraining() || this.#leavesBodyUnsent()) headers.push("connection", "close");
    this.#response.writeHead(status, headers);
  }

  write(chunk: Buffer): boolean {
    return this.#response.write(chunk);
  }

  end(trailers: string[]): void {
    if (trailers.length > 0) this.#response.addTrailers(pairs(trailers));
    this.#response.end();
  }

  reset(): void {
    this.#response.destroy();
  }

  /** The length of what a GET would have brought is not known to HEAD; 204 and 304 have no body (RFC 9110 §6.4.1). */
  #needsLength(status: number): boolean {
    return this.head.method !== "HEAD" && status !== 204 && status !== 304;
  }

  /** The client may still send the body that it announced, so what follows on the connection could be either. */
  #leavesBodyUnsent(): boolean {
    return this.#awaitsContinue && !this.#bodyTaken;
  }
}

function hasContentLength(headers: readonly string[]): boolean {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === "content-length") return true;
  return false;
}

function pairs(flat: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) list.push([flat[i] ?? "", flat[i + 1] ?? ""]);
  return list;
}

function ignore(): void {
  // Nothing to do: the response's "close" reports it.
}
