/** Reads the heads of requests in any protocol, and begins the requests or rejects them. */
import { randomBytes } from "node:crypto";
import type { RejectedHead } from "@gatewayproxy/http/http1/server-connection";
import type { Http1Exchange } from "@gatewayproxy/http/http1/server-exchange";
import type { RequestHead as Http2RequestHead } from "@gatewayproxy/http/http2/server/request-head";
import type { Http2Exchange } from "@gatewayproxy/http/http2/server/server-exchange";
import type { FieldList } from "@gatewayproxy/http/ports";
import { allowedConnectProtocol, allowedUpgrade, isWebSocket, type UpgradeProtocols } from "./upgrade-protocol.ts";
import { type Connection, schemeOf } from "./connection.ts";
import type { DownstreamEvents, RequestReceiver } from "./downstream.ts";
import {
  type HeadFault,
  readExtendedConnect,
  readHttp1Head,
  readHttp2Head,
  type RequestHead,
  type RequestRules,
} from "./request-head.ts";

/** The receiver of the requests of a bind, and the rules for them. */
export interface ClientRequestOptions extends RequestReceiver {
  /** The protocols to which a request may switch. */
  readonly upgradeProtocols: UpgradeProtocols;
  /** How paths and header names of requests are normalized or rejected. */
  readonly rules: RequestRules;
  /** Called for each request, after its head has been parsed. */
  readonly onParsed: () => void;
}

/** Begins a request, or rejects it. Returns the receiver of its events; undefined if it was rejected. */
export function beginHttp1(
  { onRequest, onRejected, onParsed, rules, upgradeProtocols }: ClientRequestOptions,
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
  // A request with a body is served without a switch of protocols, as any server may do (RFC 9110 §7.8).
  const asked = exchange.isReceiving ? undefined : allowedUpgrade(exchange.head.upgrade, upgradeProtocols);
  // A server takes a request of another method for one without the switch (RFC 6455 §4.2.1).
  const upgrade = isWebSocket(asked) && head.method !== "GET" ? undefined : asked;
  // Without the switch, the bytes after the request could belong to the other protocol.
  if (exchange.head.upgrade !== undefined) exchange.closeAfterResponse();
  return onRequest({ exchange, connection, head, upgrade });
}

/** Reports a head of HTTP/1 that is not a request. The parser has responded to it. */
export function reportRejected({ onRejected }: RequestReceiver, connection: Connection, rejected: RejectedHead): void {
  const { status, message, method, target, httpVersion, fields: rawHeaders } = rejected;
  onRejected({ connection, httpVersion, method, target, rawHeaders, fault: { status, message } });
}

/**
 * Reports a request of HTTP/2 whose fields exceed the bounds. The connection has responded; `fields` has the first
 * ones.
 */
export function reportTooLarge(
  { onRejected }: RequestReceiver,
  connection: Connection,
  message: string,
  fields: FieldList,
): void {
  const [method, target] = [valueOf(fields, ":method"), valueOf(fields, ":path")];
  const fault: HeadFault = { status: 431, message };
  onRejected({ connection, httpVersion: "2", method, target, rawHeaders: fields, fault });
}

function valueOf(fields: FieldList, name: string): string {
  const at = fields.findIndex((text, index) => index % 2 === 0 && text === name);
  return at === -1 ? "" : (fields[at + 1] ?? "");
}

/** A head of HTTP/2; undefined for an extended CONNECT, which `beginHttp2` reads. */
export type Http2Head = RequestHead | HeadFault | undefined;

/** Reads a head of HTTP/2. The connection keeps the result for later requests with an equal head. */
export function readHttp2(
  { rules }: ClientRequestOptions,
  connection: Connection,
  { method, path, authority, protocol, fields }: Http2RequestHead,
): Http2Head {
  if (protocol !== undefined) return undefined;
  return readHttp2Head(rules, schemeOf(connection), method, path, authority, fields);
}

/** As `beginHttp1`. */
export function beginHttp2(
  options: ClientRequestOptions,
  connection: Connection,
  exchange: Http2Exchange,
  read: Http2Head,
): DownstreamEvents | undefined {
  options.onParsed();
  const { method, path, protocol, fields: rawHeaders } = exchange.head;
  const upgrade = protocol === undefined ? undefined : allowedConnectProtocol(protocol, options.upgradeProtocols);
  const head = read ?? readTunnelHead(options, connection, exchange.head, upgrade);
  if ("message" in head) {
    exchange.reject(head);
    options.onRejected({ connection, httpVersion: "2", method, target: path, rawHeaders, fault: head });
    return undefined;
  }
  return options.onRequest({ exchange, connection, head, upgrade });
}

function readTunnelHead(
  { rules }: ClientRequestOptions,
  connection: Connection,
  { method, path, authority, protocol = "", fields }: Http2RequestHead,
  upgrade: string | undefined,
): RequestHead | HeadFault {
  const connect = { method, path, authority, protocol, upgrade };
  return readExtendedConnect(rules, schemeOf(connection), connect, fields, newWebSocketKey);
}

function newWebSocketKey(): string {
  return randomBytes(16).toString("base64");
}
