/**
 * A request to an endpoint. `UpstreamCall` has the callbacks of undici and converts them to the events of the server, in a
 * fixed order: `onHead` at most once, `onData` only after it, then exactly one of `onEnd` and `onFailure`, and nothing
 * after that. It notifies the endpoint when its connection is free.
 */
import { type Duplex, Readable } from "node:stream";
import type { Dispatcher } from "undici";
import { isSwitchTo } from "./upgrade-protocol.ts";
import type { Connection, HeadReader } from "./connection.ts";
import { type UpstreamFailure, toUpstreamFailure } from "./failure.ts";
import { unprocessed } from "./connection.ts";
import { abandon, beginStream, type StreamOwner } from "./http2-streams.ts";

/** A request to a backend. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path and query, starting with `/`. */
  readonly path: string;
  /** Flat: name, value, name, value …; without hop-by-hop fields. */
  readonly headers: readonly string[];
  /** A stream is read once, with back-pressure, and destroyed when the call ends. */
  readonly body: Buffer | Readable | undefined;
  /** Maximum time without data from the endpoint; 0 is unlimited, absent is that of the pool. */
  readonly idleTimeoutMs?: number;
  /** Address of the client; clients share a full endpoint. Absent for the proxy itself. */
  readonly client?: string;
  /** The protocol of a requested switch (RFC 9110 §7.8). Any response other than 101 is a normal one. */
  readonly upgrade: string | undefined;
}

/** Receives the response. All methods are called in order, in the turn of the event loop in which the bytes were read. */
export interface ResponseSink {
  /**
   * An interim response (1xx, RFC 9110 §15.2) other than 100 and 101 has arrived. Called any number of times before `onHead`.
   *
   * @param headers as for `onHead`.
   */
  onInterimHead?(status: number, headers: string[], call: UpstreamCall): void;
  /** @param headers flat, names lower case, without hop-by-hop fields. */
  onHead(status: number, headers: string[], call: UpstreamCall): void;
  onData(chunk: Buffer, call: UpstreamCall): void;
  /** @param trailers flat; empty when there are none. */
  onEnd(trailers: string[], call: UpstreamCall): void;
  onFailure(failure: UpstreamFailure, call: UpstreamCall): void;
  /**
   * Called instead of all others, only for a request with `upgrade`: the endpoint has switched protocols. The sink reads and
   * closes the connection. The call is in progress until it is closed.
   *
   * @param headers flat, names lower case, without hop-by-hop fields.
   */
  onUpgrade?(headers: string[], connection: Duplex, call: UpstreamCall): void;
  /** Called if one of the others threw: the call is aborted, and no other method is called. */
  onFault(error: unknown, call: UpstreamCall): void;
}

/** The owner of the connection of a call. */
export interface CallOwner {
  /** The call has been assigned to an open connection. */
  begun(call: UpstreamCall): void;
  /** The head of a response has arrived, or the endpoint has switched protocols. Called at most once per call. */
  responded(call: UpstreamCall): void;
  /** Called exactly once per call, before the sink is notified of the end. */
  release(call: UpstreamCall, failure: UpstreamFailure | undefined): void;
}

/**
 * An attempt of a request at one endpoint. `abort`, `expire`, `displace` and `fail` end it; after the end they have no
 * effect.
 */
export class UpstreamCall implements Dispatcher.DispatchHandler, HeadReader, StreamOwner {
  readonly #body: UpstreamRequest["body"];
  readonly #upgrade: string | undefined;
  readonly #sink: ResponseSink;
  readonly #owner: CallOwner;
  /** Undefined before the start of the call, and after the complete response. */
  #controller: Dispatcher.DispatchController | undefined;
  #hasBegun = false;
  #aborted = false;
  #hasExpired = false;
  #isDisplaced = false;
  #isUnprocessed = false;
  #done = false;
  #interimHeads = 0;
  /** Bytes that the connection had received at the start of the call. */
  #bytesBefore = 0;
  /** The connection after a switch of protocols. */
  #switched: Duplex | undefined;
  /** `host:port` of the endpoint. */
  readonly address: string;
  /** 0 until the head of a response has arrived. */
  status = 0;
  /** The connection of the call, set by the owner. Undefined while the call waits for one. */
  connection: Connection | undefined;
  /** The time at which it was sent, on the monotonic clock, set by the owner. */
  sentMs = 0;

  /** @param request with a body that the call destroys if it is a stream. */
  constructor(
    address: string,
    { body, upgrade }: Pick<UpstreamRequest, "body" | "upgrade">,
    sink: ResponseSink,
    owner: CallOwner,
  ) {
    this.address = address;
    this.#body = body;
    this.#upgrade = upgrade;
    this.#sink = sink;
    this.#owner = owner;
  }

  /** Whether the call has ended, or was aborted. */
  get isOver(): boolean {
    return this.#done || this.#aborted;
  }

  /** Stops reading from the endpoint until `resume`. The buffers of the kernel then slow the endpoint down. */
  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    if (this.#switched === undefined) this.#controller?.resume();
  }

  /** Whether the call has been assigned to an open connection. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Aborts the call: closes the connection, and calls no method of the sink. Has no effect after the end. */
  abort(): void {
    if (this.#done || this.#aborted) return;
    this.#aborted = true;
    if (this.connection === undefined) this.#finish({ kind: "aborted", message: abortReason.message });
    else if (this.#switched === undefined) this.#controller?.abort(abortReason);
    else this.#switched.destroy();
  }

  /** Aborts a call that takes too long, which counts as a failure of the endpoint. */
  expire(): void {
    this.#hasExpired = true;
    this.abort();
  }

  /** Ends the call in favor of another one: closes a switched connection, fails any other call. */
  displace(failure: UpstreamFailure): void {
    this.#isDisplaced = true;
    if (this.#switched !== undefined) {
      this.#switched.destroy();
      return;
    }
    this.fail(failure);
    this.#controller?.abort(abortReason);
  }

  /** Whether the call has made room for another one. */
  get isDisplaced(): boolean {
    return this.#isDisplaced;
  }

  /** Fails the call. Has no effect after the end. */
  fail(failure: UpstreamFailure): void {
    try {
      if (!this.#finish(failure)) return;
      this.#sink.onFailure(failure, this);
    } catch (error) {
      this.#onFault(error);
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#hasBegun = true;
    this.#owner.begun(this);
    // undici restarts some calls, which must not happen after the start of a response.
    if (this.isOver || this.status !== 0) {
      controller.abort(abortReason);
    } else if (this.connection?.isHttp2 === true) {
      beginStream(this);
    } else if (this.connection !== undefined) {
      this.#bytesBefore = this.connection.bytesRead();
      this.connection.awaiting = this;
    }
  }

  checkHead(): void {
    const { connection } = this;
    if (connection === undefined || connection.bytesRead() - this.#bytesBefore <= maxHeadBytes) return;
    this.#reject("the head of the endpoint's response has no end");
  }

  onInterimHead(status: number, headers: ResponseHeaders): void {
    if (this.isOver || this.status !== 0) return;
    if (++this.#interimHeads > maxInterimHeads) {
      this.#reject("the endpoint sends endless interim responses");
      return;
    }
    // A client that expects 100 got it from the proxy (RFC 9110 §10.1.1), and 101 without a request for it is an error.
    if (status < firstForwardedInterim) return;
    try {
      this.#sink.onInterimHead?.(status, endToEndHeaders(headers), this);
    } catch (error) {
      this.#onFault(error);
    }
  }

  /** Aborts a call with an invalid response. */
  #reject(message: string): void {
    if (this.isOver || this.status !== 0) return;
    this.fail({ kind: "reset", message });
    this.#aborted = true;
    this.#controller?.abort(abortReason);
  }

  #stopAwaiting(): void {
    if (this.connection?.awaiting === this) this.connection.awaiting = undefined;
  }

  onUnprocessed(): void {
    if (this.#done || this.status !== 0) return;
    this.#isUnprocessed = true;
    this.#controller?.abort(unprocessed);
  }

  onRequestUpgrade(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHeaders,
    connection: Duplex,
  ): void {
    // In HTTP/2, the response has no protocol: 2xx accepts that of the request (RFC 8441 §5).
    if (this.connection?.isHttp2 === false && !isSwitchTo(this.#upgrade ?? "", headers["upgrade"])) {
      connection.destroy();
      this.fail({ kind: "reset", message: "the endpoint has switched to another protocol than the requested one" });
      return;
    }
    this.#stopAwaiting();
    this.connection?.stopWatching();
    this.status = status;
    this.#switched = connection;
    this.#owner.responded(this);
    connection.once("close", () => this.#finish(undefined));
    if (this.#aborted) {
      connection.destroy();
    } else {
      try {
        this.#sink.onUpgrade?.(endToEndHeaders(headers), connection, this);
      } catch (error) {
        this.#onFault(error);
      }
    }
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (this.#aborted) return;
    if (status < 200) {
      this.onInterimHead(status, headers);
      return;
    }
    this.#stopAwaiting();
    const codings = headers["transfer-encoding"];
    if (codings !== undefined && !isChunkedAlone(codings)) {
      // The chunked coding is removed. The client would not know of the remaining codings (RFC 9112 §7.4).
      this.#reject("the endpoint has responded with a transfer coding that was not requested");
      return;
    }
    this.status = status;
    this.#owner.responded(this);
    try {
      this.#sink.onHead(status, endToEndHeaders(headers), this);
    } catch (error) {
      this.#onFault(error);
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#aborted) return;
    try {
      this.#sink.onData(chunk, this);
    } catch (error) {
      this.#onFault(error);
    }
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: ResponseHeaders): void {
    const isWanted = this.#finish(undefined);
    // It holds the fields of the response, 2 KiB or more, and the client may take minutes to read.
    this.#controller = undefined;
    if (!isWanted) return;
    try {
      this.#sink.onEnd(endToEndHeaders(trailers), this);
    } catch (error) {
      this.#onFault(error);
    }
  }

  /** An error of the sink must not reach undici or other calls. */
  #onFault(error: unknown): void {
    this.abort();
    this.#sink.onFault(error, this);
  }

  /** Deferred, since undici is failing other calls, and would treat a call that is started now as one of them. */
  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    process.nextTick(() => this.fail(this.#failureOf(error)));
  }

  #failureOf(error: Error): UpstreamFailure {
    if (!this.#aborted && this.#isUnprocessed) return toUpstreamFailure(unprocessed, true);
    // undici has started it, and the endpoint may have processed it.
    if (error === unprocessed && this.#hasBegun) return { kind: "reset", message: "the endpoint has left" };
    if (!this.#aborted) return toUpstreamFailure(error, this.#hasBegun);
    return { kind: this.#hasExpired ? "timeout" : "aborted", message: error.message };
  }

  /** @returns whether to notify the sink. */
  #finish(failure: UpstreamFailure | undefined): boolean {
    if (this.#done) return false;
    this.#done = true;
    // undici sometimes does not destroy it. Then the rest of the client's body would not be read, nor its end noticed.
    if (this.#body instanceof Readable && !this.#body.destroyed) abandon(this.#body);
    this.#owner.release(this, failure);
    return !this.#aborted;
  }
}

/** Maximum bytes before the body of a response, including interim heads, and the part of the body in the same reads. */
const maxHeadBytes = 256 * 1024;
/** The lowest status of an interim response that is forwarded. */
const firstForwardedInterim = 102;
/** Maximum number of interim responses (1xx). */
const maxInterimHeads = 16;

const abortReason = new Error("the call was aborted");

type ResponseHeaders = Record<string, string | string[] | undefined>;

/**
 * Flattens the headers of undici (names in lower case), without connection-specific fields (RFC 9110 §7.6.1) and those that
 * only this gateway may set.
 */
function endToEndHeaders(headers: ResponseHeaders): string[] {
  const flat: string[] = [];
  const connection = headers["connection"];
  const named = connection === undefined ? undefined : connectionOptions(connection);
  for (const name in headers) {
    if (notForwarded.has(name) || named?.has(name) === true) continue;
    const value = headers[name];
    if (typeof value === "string") flat.push(name, value);
    else if (value !== undefined) for (const item of value) flat.push(name, item);
  }
  return flat;
}

function isChunkedAlone(codings: string | string[]): boolean {
  return typeof codings === "string" && codings.toLowerCase() === "chunked";
}

const notForwarded: ReadonlySet<string> = new Set([
  // Only for denials by a global limit. Clients would treat one of a backend as such a denial.
  "x-envoy-ratelimited",
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
  // Belongs to an upgrade that HTTP/2 has retired (RFC 9113 §3.1).
  "http2-settings",
  "te",
]);

/** Returns the fields that `Connection` lists; undefined for the common values `keep-alive` and `close`. */
function connectionOptions(value: string | string[]): ReadonlySet<string> | undefined {
  if (value === "keep-alive" || value === "close") return undefined;
  const text = typeof value === "string" ? value : value.join(",");
  return new Set(text.split(",").map((option) => option.trim().toLowerCase()));
}
