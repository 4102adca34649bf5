/** HTTP/1.0 and 1.1 towards the client: how a request of the wire becomes one of the server. */
import type { RejectedHead } from "@gatewayproxy/http/http1/server-connection";
import type { Http1Exchange } from "@gatewayproxy/http/http1/server-exchange";
import type { IncomingBody, SwitchedStream } from "@gatewayproxy/http/ports";
import { allowedUpgrade, type UpgradeProtocols } from "../upstream/upgrade-protocol.ts";
import { type Connection, schemeOf } from "./connection.ts";
import type { Downstream, DownstreamEvents, RequestReceiver } from "./downstream.ts";
import { readHttp1Head, type RequestHead, type RequestRules } from "./request-head.ts";

/** The receiver of the requests of a bind, and the rules for them. */
export interface Http1Options extends RequestReceiver {
  /** The protocols to which a request may switch. */
  readonly upgradeProtocols: UpgradeProtocols;
  /** How paths and header names of requests are normalized or rejected. */
  readonly rules: RequestRules;
  /** Called for each request, after its head has been parsed. */
  readonly onParsed: () => void;
}

/** Begins a request, or rejects it. Returns the receiver of its events, if it has begun. */
export function beginHttp1(
  { onRequest, onRejected, onParsed, rules, upgradeProtocols }: Http1Options,
  connection: Connection,
  exchange: Http1Exchange,
): DownstreamEvents | undefined {
  onParsed();
  const head = readHttp1Head(rules, schemeOf(connection), exchange.head);
  if ("message" in head) {
    const { httpVersion } = exchange;
    const { method, target, fields: rawHeaders } = exchange.head;
    exchange.reject(head);
    onRejected({ connection, httpVersion, method, target, rawHeaders, fault: head });
    return undefined;
  }
  // A body before the switch: served without switching, as any server may do (RFC 9110 §7.8).
  const upgrade = exchange.isReceiving ? undefined : allowedUpgrade(exchange.head.upgrade, upgradeProtocols);
  // Without the switch, the bytes behind the request could be those of the other protocol.
  if (exchange.head.upgrade !== undefined) exchange.closeAfterResponse();
  return onRequest(new Http1Downstream(exchange, connection, head, upgrade));
}

/** Reports a head that is not a request. The wire has responded. */
export function reportRejected({ onRejected }: RequestReceiver, connection: Connection, rejected: RejectedHead): void {
  const { status, message, method, target, httpVersion, fields: rawHeaders } = rejected;
  onRejected({ connection, httpVersion, method, target, rawHeaders, fault: { status, message } });
}

/** A request of HTTP/1.0 or 1.1. */
class Http1Downstream implements Downstream {
  readonly head: RequestHead;
  readonly connection: Connection;
  readonly upgrade: string | undefined;
  readonly #exchange: Http1Exchange;

  constructor(exchange: Http1Exchange, connection: Connection, head: RequestHead, upgrade: string | undefined) {
    this.#exchange = exchange;
    this.connection = connection;
    this.head = head;
    this.upgrade = upgrade;
  }

  get httpVersion(): string {
    return this.#exchange.httpVersion;
  }

  get body(): IncomingBody | undefined {
    return this.#exchange.body;
  }

  get isReceiving(): boolean {
    return this.upgrade !== undefined || this.#exchange.isReceiving;
  }

  get unreadBytes(): number {
    return this.#exchange.unreadBytes;
  }

  respond(status: number, headers: string[], body: Buffer | string): void {
    // The rest of the request is not waited for (RFC 9110 §15.5.9).
    if (status === 408) this.#exchange.closeAfterResponse();
    this.#exchange.respond(status, headers, body);
  }

  forward(status: number, headers: string[], body: Buffer): void {
    this.#exchange.forward(status, headers, body);
  }

  inform(status: number, headers: string[]): void {
    this.#exchange.inform(status, headers);
  }

  start(status: number, headers: string[]): void {
    this.#exchange.start(status, headers);
  }

  write(chunk: Buffer): boolean {
    return this.#exchange.write(chunk);
  }

  end(trailers: string[]): void {
    this.#exchange.end(trailers);
  }

  switchProtocols(headers: string[]): SwitchedStream {
    return this.#exchange.switchProtocols(this.upgrade ?? "", headers);
  }

  reset(): void {
    this.#exchange.reset();
  }
}
