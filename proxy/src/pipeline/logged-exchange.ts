/**
 * The exchange of a request that is logged in detail. It logs each response head, and delegates to the real exchange.
 */
import type { FieldList, IncomingBody, ServerExchange, SwitchedStream } from "@gatewayproxy/http/ports";
import { loggedHeaders, type RequestLogger } from "../telemetry/request-log.ts";

export class LoggedExchange implements ServerExchange {
  readonly #inner: ServerExchange;
  readonly #log: RequestLogger;

  constructor(inner: ServerExchange, log: RequestLogger) {
    this.#inner = inner;
    this.#log = log;
  }

  get httpVersion(): string {
    return this.#inner.httpVersion;
  }

  get body(): IncomingBody | undefined {
    return this.#inner.body;
  }

  get isReceiving(): boolean {
    return this.#inner.isReceiving;
  }

  get waitingBytes(): number {
    return this.#inner.waitingBytes;
  }

  get unreadBytes(): number {
    return this.#inner.unreadBytes;
  }

  respond(status: number, fields: readonly string[], body: Buffer | string): void {
    this.#logHead(status, fields);
    this.#inner.respond(status, fields, body);
  }

  forward(status: number, fields: readonly string[], body: Buffer): void {
    this.#logHead(status, fields);
    this.#inner.forward(status, fields, body);
  }

  inform(status: number, fields: readonly string[]): void {
    this.#logHead(status, fields);
    this.#inner.inform(status, fields);
  }

  start(status: number, fields: readonly string[]): void {
    this.#logHead(status, fields);
    this.#inner.start(status, fields);
  }

  write(bytes: Buffer, isExclusive = false): boolean {
    return this.#inner.write(bytes, isExclusive);
  }

  end(trailers: FieldList): void {
    this.#inner.end(trailers);
  }

  switchProtocols(protocol: string, fields: readonly string[]): SwitchedStream {
    this.#logHead(101, fields);
    return this.#inner.switchProtocols(protocol, fields);
  }

  reset(): void {
    this.#log.debug({}, "response truncated");
    this.#inner.reset();
  }

  #logHead(status: number, fields: readonly string[]): void {
    if (this.#log.isTracing) this.#log.trace({ status, headers: loggedHeaders(fields) }, "response head sent");
  }
}
