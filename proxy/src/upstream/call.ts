/**
 * One request to one endpoint. `UpstreamCall` is what undici calls back; it turns that into the few events that the
 * server needs, keeps their order honest (`onHead` at most once, `onData` only after it, then exactly one of `onEnd`
 * and `onFailure`, nothing after that) and tells the endpoint when its connection is free again.
 */
import { type Duplex, Readable } from "node:stream";
import type { Dispatcher } from "undici";
import { isSwitchTo } from "./upgrade-protocol.ts";
import type { Connection, HeadReader } from "./connection.ts";
import { type UpstreamFailure, toUpstreamFailure } from "./failure.ts";
import { refused } from "./connection.ts";
import { abandon, beginStream, type StreamOwner } from "./http2-streams.ts";

/** A request as it goes out. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path and query, starting with `/`. */
  readonly path: string;
  /** Flat: name, value, name, value …; without hop-by-hop fields. */
  readonly headers: readonly string[];
  /** A stream is read once, with back-pressure, and destroyed when the call ends. */
  readonly body: Buffer | Readable | undefined;
  /** Longest silence of the endpoint, before and within its answer; 0 waits for ever, absent is the pool's own. */
  readonly idleTimeoutMs?: number;
  /** Address of the client, among whom a full endpoint is shared; absent: the proxy itself. */
  readonly client?: string;
  /** A protocol to ask the endpoint to switch to (RFC 9110 §7.8); any answer but 101 is an ordinary one. */
  readonly upgrade: string | undefined;
}

/** Receives the answer. All calls come from the event loop turn in which the bytes were read, in order. */
export interface ResponseSink {
  /** @param headers flat, names lower case, without hop-by-hop fields. */
  onHead(status: number, headers: string[], call: UpstreamCall): void;
  onData(chunk: Buffer, call: UpstreamCall): void;
  /** @param trailers flat; empty when there are none. */
  onEnd(trailers: string[], call: UpstreamCall): void;
  onFailure(failure: UpstreamFailure, call: UpstreamCall): void;
  /**
   * In the place of all others, and only for a request with `upgrade`: the endpoint has switched protocols. The
   * connection is the sink's now, to read and to close; the call counts as under way until it is closed.
   *
   * @param headers flat, names lower case, without hop-by-hop fields.
   */
  onUpgrade?(headers: string[], connection: Duplex, call: UpstreamCall): void;
  /** One of the others threw: the call has been given up, and nothing more is told. */
  onFault(error: unknown, call: UpstreamCall): void;
}

/** Whoever lent a connection to a call. */
export interface CallOwner {
  /** The call has been handed to a live connection. */
  begun(call: UpstreamCall): void;
  /** The head of an answer has come, or the endpoint has switched protocols; called at most once per call. */
  answered(call: UpstreamCall): void;
  /** Called exactly once per call, before the sink hears of the end. */
  release(call: UpstreamCall, failure: UpstreamFailure | undefined): void;
}

export class UpstreamCall implements Dispatcher.DispatchHandler, HeadReader, StreamOwner {
  readonly #body: UpstreamRequest["body"];
  readonly #upgrade: string | undefined;
  readonly #sink: ResponseSink;
  readonly #owner: CallOwner;
  /** Absent before the call has begun, and once the whole answer has come. */
  #controller: Dispatcher.DispatchController | undefined;
  #hasBegun = false;
  #aborted = false;
  #hasExpired = false;
  #isDisplaced = false;
  #isRefused = false;
  #done = false;
  #interimHeads = 0;
  /** That had come on the connection when the call began. */
  #bytesBefore = 0;
  /** What the endpoint made of the connection when it switched protocols. */
  #switched: Duplex | undefined;
  /** `host:port` of the endpoint. */
  readonly address: string;
  /** 0 until the head of an answer has come. */
  status = 0;
  /** The connection that carries the call; the owner's business. Absent while the call waits for one. */
  connection: Connection | undefined;
  /** When it left, monotonic; the owner's business too. */
  sentMs = 0;

  /** @param request whose body, where it is a stream, is the call's own to destroy. */
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

  /** Whether the call has come to its end, good or bad, or has been given up. */
  get isOver(): boolean {
    return this.#done || this.#aborted;
  }

  /** Stops reading from the endpoint until `resume`; the kernel's buffers then slow the endpoint down. */
  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    if (this.#switched === undefined) this.#controller?.resume();
  }

  /** Whether the call has been handed to a live connection. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Gives up: the connection is closed and the sink hears nothing more. Harmless after the end. */
  abort(): void {
    if (this.#done || this.#aborted) return;
    this.#aborted = true;
    if (this.connection === undefined) this.#finish({ kind: "aborted", message: abortReason.message });
    else if (this.#switched === undefined) this.#controller?.abort(abortReason);
    else this.#switched.destroy();
  }

  /** Gives up on an endpoint that takes too long, and holds that against it. */
  expire(): void {
    this.#hasExpired = true;
    this.abort();
  }

  /** Ends the call in favour of another one: closes a switched connection, fails any other call. */
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

  /** Ends the call. Harmless after the end. */
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
    // undici begins some calls again; none may be whose answer has begun.
    if (this.isOver || this.status !== 0) controller.abort(abortReason);
    else if (this.connection?.isHttp2 === true) beginStream(this);
    else if (this.connection !== undefined) {
      this.#bytesBefore = this.connection.bytesRead();
      this.connection.awaiting = this;
    }
  }

  checkHead(): void {
    const { connection } = this;
    if (connection === undefined || connection.bytesRead() - this.#bytesBefore <= maxHeadBytes) return;
    this.#reject("the endpoint does not come to the end of the head of its answer");
  }

  onInterimHead(): void {
    if (++this.#interimHeads > maxInterimHeads) this.#reject("the endpoint sends interim answers without end");
  }

  /** Gives up an answer that cannot be used. */
  #reject(message: string): void {
    if (this.isOver || this.status !== 0) return;
    this.fail({ kind: "reset", message });
    this.#aborted = true;
    this.#controller?.abort(abortReason);
  }

  #stopAwaiting(): void {
    if (this.connection?.awaiting === this) this.connection.awaiting = undefined;
  }

  onRefused(): void {
    if (this.#done || this.status !== 0) return;
    this.#isRefused = true;
    this.#controller?.abort(refused);
  }

  onRequestUpgrade(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHeaders,
    connection: Duplex,
  ): void {
    // Over HTTP/2 the response names no protocol: 2xx accepts the one of the request (RFC 8441 §5).
    if (this.connection?.isHttp2 === false && !isSwitchTo(this.#upgrade ?? "", headers["upgrade"])) {
      connection.destroy();
      this.fail({ kind: "reset", message: "the endpoint has switched to another protocol than it was asked for" });
      return;
    }
    this.#stopAwaiting();
    this.connection?.stopWatching();
    this.status = status;
    this.#switched = connection;
    this.#owner.answered(this);
    connection.once("close", () => this.#finish(undefined));
    if (this.#aborted) connection.destroy();
    else {
      try {
        this.#sink.onUpgrade?.(endToEndHeaders(headers), connection, this);
      } catch (error) {
        this.#onFault(error);
      }
    }
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    // The real answer follows a 1xx. RFC 9110 §15.2 has proxies pass these on, 103 (Early Hints) for one; we do not, and
    // clients lose no more than the hint.
    if (this.#aborted) return;
    if (status < 200) {
      this.onInterimHead();
      return;
    }
    this.#stopAwaiting();
    const codings = headers["transfer-encoding"];
    if (codings !== undefined && !isChunkedAlone(codings)) {
      // The chunks are taken off and the other codings stay, which the client would not be told of (RFC 9112 §7.4).
      this.#reject("the endpoint has answered with a transfer coding that nobody asked for");
      return;
    }
    this.status = status;
    this.#owner.answered(this);
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
    // It holds the fields of the answer, 2 KiB or more, and the client may take minutes to read what it has been sent.
    this.#controller = undefined;
    if (!isWanted) return;
    try {
      this.#sink.onEnd(endToEndHeaders(trailers), this);
    } catch (error) {
      this.#onFault(error);
    }
  }

  /** Neither undici nor its other calls are to see what failed in ours. */
  #onFault(error: unknown): void {
    this.abort();
    this.#sink.onFault(error, this);
  }

  /** Told later: undici is in the midst of failing others, and a call that follows at once would be taken for one of them. */
  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    process.nextTick(() => this.fail(this.#failureOf(error)));
  }

  #failureOf(error: Error): UpstreamFailure {
    if (!this.#aborted && this.#isRefused) return toUpstreamFailure(refused, true);
    // undici has begun it, and nothing says that the endpoint has not.
    if (error === refused && this.#hasBegun) return { kind: "reset", message: "the endpoint has left" };
    if (!this.#aborted) return toUpstreamFailure(error, this.#hasBegun);
    return { kind: this.#hasExpired ? "timeout" : "aborted", message: error.message };
  }

  /** @returns whether the sink should hear of it. */
  #finish(failure: UpstreamFailure | undefined): boolean {
    if (this.#done) return false;
    this.#done = true;
    // undici forgets it in some cases; then nobody would read what the client still sends, or see it leave.
    if (this.#body instanceof Readable && !this.#body.destroyed) abandon(this.#body);
    this.#owner.release(this, failure);
    return !this.#aborted;
  }
}

/** Bytes of an answer before its body, interim heads included; and of the body what comes in the same reads. */
const maxHeadBytes = 256 * 1024;
/** Answers with a status of 1xx before the final one. */
const maxInterimHeads = 16;

const abortReason = new Error("the call was given up");

type ResponseHeaders = Record<string, string | string[] | undefined>;

/**
 * Flattens what undici parsed (names lower case), and leaves out what concerns the one connection only (RFC 9110 §7.6.1)
 * and what only this gateway may say.
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
  // Of a refusal by a global limit alone: clients would take a backend's for that.
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

/** Fields that `Connection` names; nothing for the everyday `keep-alive` and `close`. */
function connectionOptions(value: string | string[]): ReadonlySet<string> | undefined {
  if (value === "keep-alive" || value === "close") return undefined;
  const text = typeof value === "string" ? value : value.join(",");
  return new Set(text.split(",").map((option) => option.trim().toLowerCase()));
}
