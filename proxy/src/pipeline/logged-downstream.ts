/** The client's side of a request that is logged in detail: each head that goes to the client is logged. */
import type { IncomingBody, SwitchedStream } from "@gatewayproxy/http/ports";
import { loggedHeaders, type RequestLogger } from "../telemetry/request-log.ts";
import type { Connection } from "../listen/connection.ts";
import type { Downstream } from "../listen/downstream.ts";
import type { RequestHead } from "../listen/request-head.ts";

export class LoggedDownstream implements Downstream {
  readonly #inner: Downstream;
  readonly #log: RequestLogger;

  constructor(inner: Downstream, log: RequestLogger) {
    this.#inner = inner;
    this.#log = log;
  }

  get head(): RequestHead {
    return this.#inner.head;
  }

  get httpVersion(): string {
    return this.#inner.httpVersion;
  }

  get connection(): Connection {
    return this.#inner.connection;
  }

  get body(): IncomingBody | undefined {
    return this.#inner.body;
  }

  get upgrade(): string | undefined {
    return this.#inner.upgrade;
  }

  get isReceiving(): boolean {
    return this.#inner.isReceiving;
  }

  get unreadBytes(): number {
    return this.#inner.unreadBytes;
  }

  respond(status: number, headers: string[], body: Buffer | string): void {
    this.#logHead(status, headers);
    this.#inner.respond(status, headers, body);
  }

  forward(status: number, headers: string[], body: Buffer): void {
    this.#logHead(status, headers);
    this.#inner.forward(status, headers, body);
  }

  inform(status: number, headers: string[]): void {
    this.#logHead(status, headers);
    this.#inner.inform(status, headers);
  }

  start(status: number, headers: string[]): void {
    this.#logHead(status, headers);
    this.#inner.start(status, headers);
  }

  write(chunk: Buffer): boolean {
    return this.#inner.write(chunk);
  }

  end(trailers: string[]): void {
    this.#inner.end(trailers);
  }

  switchProtocols(headers: string[]): SwitchedStream {
    this.#logHead(101, headers);
    return this.#inner.switchProtocols(headers);
  }

  reset(): void {
    this.#log.debug({}, "response truncated");
    this.#inner.reset();
  }

  #logHead(status: number, headers: readonly string[]): void {
    if (this.#log.isTracing) this.#log.trace({ status, headers: loggedHeaders(headers) }, "response head sent");
  }
}
