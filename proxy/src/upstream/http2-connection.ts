/**
 * A connection to an endpoint over HTTP/2: an undici `Client`, which opens its socket with its first request. Its streams are
 * watched (`http2-streams.ts`).
 */
import type { IncomingHttpHeaders } from "node:http2";
import { type LookupFunction, type Socket } from "node:net";
import { type Duplex, Readable } from "node:stream";
import { buildConnector, Client, type Dispatcher } from "undici";
import type { ClientExchange, ClientRequest, OutgoingBody } from "@gatewayproxy/http/ports";
import { clientTls, serverName } from "../connect/client-tls.ts";
import { findForbidden, guardedLookup } from "../connect/guarded-lookup.ts";
import { addressOf, callsPerConnection } from "./connection.ts";
import type { Connection, ConnectionCall, ConnectionOptions, ConnectionOwner, ConnectionTarget } from "./connection.ts";
import { type UpstreamFailure, toUpstreamFailure, unprocessedByEndpoint, uploadAborted } from "./failure.ts";
import { beginStream, type StreamOwner, watchStreams } from "./http2-streams.ts";

watchStreams();

/** The error of a call that its endpoint has not processed. */
const unprocessed = Object.assign(new Error("the endpoint has not processed the request"), {
  code: unprocessedByEndpoint,
});
const abortReason = new Error("the call was aborted");

/** A client of undici and its socket. */
export class Http2Connection implements Connection {
  readonly #client: Client;
  /** undici opens a new socket for each request with another one. */
  readonly #serverName: string | null;
  #socket: Socket | undefined;
  readonly isHttp2 = true;
  calls = 0;
  isUnused = false;

  /**
   * Creates a connection. Its owner is notified when the endpoint leaves (GOAWAY): accepted calls finish, all others fail as
   * unprocessed, and no call must follow. undici would continue with another socket in the same client, confuse the calls of
   * both when either ends, and send accepted calls again.
   */
  constructor(target: ConnectionTarget, options: ConnectionOptions, owner: ConnectionOwner) {
    const { tls, endpoint } = target;
    this.#serverName = tls === undefined ? null : serverName(endpoint.host, tls);
    const origin = `${tls === undefined ? "http" : "https"}://${addressOf(endpoint)}`;
    const isUrl = URL.canParse(origin);
    const connect = isUrl
      ? safeConnectorOf(target, options)
      : failToConnect(`${addressOf(endpoint)} is not a valid address`);
    const maxConcurrentStreams = callsPerConnection(target);
    this.#client = new Client(isUrl ? origin : "http://invalid", {
      pipelining: maxConcurrentStreams,
      headersTimeout: options.idleTimeoutMs,
      bodyTimeout: options.idleTimeoutMs,
      maxHeaderSize: 64 * 1024,
      allowH2: true,
      connect: (asked, callback) =>
        connect(asked, (...result) => {
          this.#socket = result[1] ?? undefined;
          callback(...result);
        }),
      h2Options: { maxConcurrentStreams },
    });
    this.#client.on("disconnect", () => {
      // A closed connection has no calls left.
      if (this.#socket?.destroyed !== false) return;
      void this.#client.destroy(unprocessed);
      owner.onUnavailable(this);
    });
  }

  /** undici opens another socket if one has broken. */
  get isAvailable(): boolean {
    return !this.#client.destroyed;
  }

  send(request: ClientRequest, idleTimeoutMs: number, call: ConnectionCall): void {
    const exchange = new Http2Exchange(call);
    call.begin(exchange);
    const { method, path, body, upgrade } = request;
    // The option exists in undici, but not in its types.
    const options: Dispatcher.DispatchOptions & { servername: string | null } = {
      method,
      path,
      // undici only reads the array; its type lacks readonly.
      headers: request.fields as string[],
      body: body === undefined || Buffer.isBuffer(body) ? (body ?? null) : readableOf(body),
      servername: this.#serverName,
      headersTimeout: idleTimeoutMs,
      bodyTimeout: idleTimeoutMs,
      upgrade: upgrade ?? null,
    };
    try {
      this.#client.dispatch(options, exchange);
    } catch (error) {
      // undici rejects a request with an unsafe method or header, and has sent nothing.
      exchange.onResponseError(undefined, error instanceof Error ? error : new Error(String(error)));
    }
  }

  close(): void {
    // A switched connection may end after the pool was destroyed.
    if (!this.#client.destroyed) void this.#client.close();
  }

  /** undici keeps accepted streams of a leaving endpoint when its client is destroyed. */
  destroy(): void {
    if (!this.#client.destroyed) void this.#client.destroy();
    this.#socket?.destroy();
  }
}

/** A call as undici handles it. */
class Http2Exchange implements Dispatcher.DispatchHandler, StreamOwner, ClientExchange {
  readonly #call: ConnectionCall;
  #controller: Dispatcher.DispatchController | undefined;
  #isSwitched = false;
  #isAborted = false;
  #isUnprocessed = false;

  constructor(call: ConnectionCall) {
    this.#call = call;
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    if (!this.#isSwitched) this.#controller?.resume();
  }

  abort(): void {
    this.#isAborted = true;
    this.#controller?.abort(abortReason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#call.onSent();
    // undici restarts some calls, which must not happen after the start of a response.
    if (this.#isAborted || this.#call.status !== 0) controller.abort(abortReason);
    else beginStream(this);
  }

  onUnprocessed(): void {
    if (this.#call.isOver || this.#call.status !== 0) return;
    this.#isUnprocessed = true;
    this.#controller?.abort(unprocessed);
  }

  onInterimHead(status: number, headers: IncomingHttpHeaders): void {
    if (!this.#isAborted) this.#call.onInterimHead(status, flatten(headers));
  }

  onRequestUpgrade(
    _controller: Dispatcher.DispatchController,
    _status: number,
    headers: ResponseHeaders,
    stream: Duplex,
  ): void {
    this.#isSwitched = true;
    // undici hands over the stream of Node, which has it.
    this.#call.onSwitched(flatten(headers), stream as Duplex & Pick<Socket, "setTimeout">);
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (this.#isAborted) return;
    if (status < 200) this.#call.onInterimHead(status, flatten(headers));
    else this.#call.onHead(status, flatten(headers));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#isAborted) this.#call.onData(chunk);
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: ResponseHeaders): void {
    // It holds the fields of the response, 2 KiB or more, and the client may take minutes to read.
    this.#controller = undefined;
    if (!this.#isAborted) this.#call.onEnd(flatten(trailers));
  }

  /** Deferred, since undici is failing other calls, and would treat a call that is started now as one of them. */
  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#controller = undefined;
    if (!this.#isAborted) process.nextTick(() => this.#call.onFailure(this.#failureOf(error)));
  }

  #failureOf(error: Error): UpstreamFailure {
    const { hasBegun } = this.#call;
    if (this.#isUnprocessed) return toUpstreamFailure(unprocessed, true);
    // undici has started it, and the endpoint may have processed it.
    if (error === unprocessed && hasBegun) return { kind: "reset", message: "the endpoint has left" };
    return toUpstreamFailure(error, hasBegun);
  }
}

type ResponseHeaders = Record<string, string | string[] | undefined>;

function flatten(headers: ResponseHeaders): string[] {
  const flat: string[] = [];
  for (const name in headers) {
    const value = headers[name];
    if (typeof value === "string") flat.push(name, value);
    else if (value !== undefined) for (const item of value) flat.push(name, item);
  }
  return flat;
}

/** Returns the body as a stream, which undici destroys when the call ends. */
function readableOf(body: OutgoingBody): Readable {
  let isReading = false;
  let hasEnded = false;
  const stream = new Readable({
    highWaterMark: 0,
    read() {
      if (isReading) {
        body.resume();
        return;
      }
      isReading = true;
      body.read({
        onData(bytes) {
          body.pause();
          stream.push(bytes);
        },
        onEnd() {
          hasEnded = true;
          stream.push(null);
        },
        onAborted() {
          hasEnded = true;
          stream.destroy(Object.assign(new Error("the client has ended its upload early"), { code: uploadAborted }));
        },
      });
    },
    destroy(error, callback) {
      if (!hasEnded) body.cancel();
      callback(error);
    },
  });
  // A call that waits for a connection does not listen yet.
  stream.on("error", () => undefined);
  return stream;
}

/** TLS settings that Node rejects only fail the calls with them. */
function safeConnectorOf(target: ConnectionTarget, options: ConnectionOptions): buildConnector.connector {
  try {
    return connectorOf(target, options);
  } catch (error) {
    return failToConnect(`${addressOf(target.endpoint)} cannot be connected to: ${String(error)}`);
  }
}

/** Returns a connector that always fails. A `Client` throws if its origin is not a URL, which a host can cause. */
function failToConnect(message: string): buildConnector.connector {
  return (_asked, callback) => process.nextTick(callback, new Error(message), null);
}

/**
 * Returns a connector for permitted addresses. undici would use the `host` of each request, which the client chooses, as the
 * server name.
 */
function connectorOf(
  { tls, endpoint }: ConnectionTarget,
  { addresses, connectTimeoutMs: timeout }: ConnectionOptions,
): buildConnector.connector {
  const secure = tls === undefined ? undefined : clientTls(endpoint.host, tls);
  // `useH2c` is an option of undici, which its types have only for a Client.
  const options: buildConnector.BuildOptions & { readonly useH2c: boolean; readonly lookup: LookupFunction } = {
    ...secure,
    timeout,
    lookup: guardedLookup(addresses, endpoint.port),
    allowH2: true,
    preferH2: true,
    useH2c: tls === undefined,
  };
  const connect = buildConnector(options);
  return (asked, callback) => {
    // The host of undici, which rewrites some hosts: 2130706433 is 127.0.0.1.
    const forbidden = findForbidden(addresses, asked.hostname, endpoint.port);
    if (forbidden !== undefined) process.nextTick(callback, forbidden, null);
    else connect(secure === undefined ? asked : { ...asked, servername: secure.servername }, callback);
  };
}
