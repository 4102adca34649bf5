/**
 * A request to an endpoint. `UpstreamCall` receives the events of its connection, and passes them on to its sink:
 * `onHead` at most once, `onData` only after it, then exactly one of `onEnd` and `onFailure`, and nothing after that.
 * It notifies the endpoint when its connection is free.
 */
import { endToEndFields } from "@gatewayproxy/http/fields";
import type { ClientExchange, ClientRequest, FieldList, SwitchedStream } from "@gatewayproxy/http/ports";
import type { Connection, ConnectionCall } from "./connection.ts";
import type { UpstreamFailure } from "./failure.ts";

/** A request to a backend. Its body is read once, and cancelled when the call ends before it. */
export interface UpstreamRequest extends ClientRequest {
  /** Maximum time without data from the endpoint; 0 is unlimited, absent is that of the pool. */
  readonly idleTimeoutMs?: number;
  /** Address of the client; clients share a full endpoint, and connections. Absent for the proxy itself. */
  readonly client?: string;
}

/**
 * Receives the response. All methods are called in order, in the turn of the event loop in which the bytes were read.
 */
export interface ResponseSink {
  /**
   * An interim response (1xx, RFC 9110 §15.2) other than 100 and 101 has arrived. Called any number of times before
   * `onHead`.
   *
   * @param headers as for `onHead`.
   */
  onInterimHead?(status: number, headers: string[], call: UpstreamCall): void;
  /** @param headers flat, names lower case, without hop-by-hop fields. */
  onHead(status: number, headers: string[], call: UpstreamCall): void;
  /** As `BodyReceiver.onData`. */
  onData(chunk: Buffer, isExclusive: boolean, call: UpstreamCall): void;
  /** @param trailers flat; empty when there are none. */
  onEnd(trailers: string[], call: UpstreamCall): void;
  onFailure(failure: UpstreamFailure, call: UpstreamCall): void;
  /**
   * Called instead of all others, only for a request with `upgrade`: the endpoint has switched protocols. The sink
   * reads and closes the connection. The call is in progress until it is closed.
   *
   * @param headers flat, names lower case, without hop-by-hop fields.
   */
  onUpgrade?(headers: string[], connection: SwitchedStream, call: UpstreamCall): void;
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
export class UpstreamCall implements ConnectionCall {
  readonly #body: UpstreamRequest["body"];
  readonly #sink: ResponseSink;
  readonly #owner: CallOwner;
  /** Undefined before the call has a connection. */
  #exchange: ClientExchange | undefined;
  #hasBegun = false;
  #isDisplaced = false;
  #isOver = false;
  #interimHeads = 0;
  /** The connection after a switch of protocols. */
  #switched: SwitchedStream | undefined;
  /** `host:port` of the endpoint. */
  readonly address: string;
  /** As `UpstreamRequest.client`. */
  readonly client: string | undefined;
  /** Whether `pause` was called. */
  hasPaused = false;
  /** 0 until the head of a response has arrived. */
  status = 0;
  /** The connection of the call, set by the owner. Undefined while the call waits for one. */
  connection: Connection | undefined;
  /** The time at which it was sent, on the monotonic clock, set by the owner. */
  sentMs = 0;

  /** The body of the request is cancelled when the call ends. */
  constructor(address: string, { body, client }: UpstreamRequest, sink: ResponseSink, owner: CallOwner) {
    this.address = address;
    this.client = client;
    this.#body = body;
    this.#sink = sink;
    this.#owner = owner;
  }

  /** Whether the call has ended. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Stops reading from the endpoint until `resume`. The buffers of the kernel then slow the endpoint down. */
  pause(): void {
    this.hasPaused = true;
    this.#exchange?.pause();
  }

  resume(): void {
    this.#exchange?.resume();
  }

  /** As `ClientExchange.bufferedBytes`. */
  get bufferedBytes(): number {
    return this.#exchange?.bufferedBytes ?? 0;
  }

  /** Whether the call has been assigned to an open connection. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /**
   * Aborts the call: closes the connection, or the stream, and calls no method of the sink. Has no effect after the
   * end.
   */
  abort(): void {
    this.#end({ kind: "aborted", message: "the call was aborted" });
  }

  /** Aborts a call that takes too long, which counts as a failure of the endpoint. */
  expire(): void {
    this.#end({ kind: "timeout", message: "the call was aborted" });
  }

  /** Ends the call in favor of another one: closes a switched connection, fails any other call. */
  displace(failure: UpstreamFailure): void {
    this.#isDisplaced = true;
    if (this.#switched === undefined) this.fail({ ...failure, isDisplaced: this.#hasBegun });
    else this.#switched.destroy();
  }

  /** Whether the call has made room for another one. */
  get isDisplaced(): boolean {
    return this.#isDisplaced;
  }

  /** Fails the call. Has no effect after the end. */
  fail(failure: UpstreamFailure): void {
    if (this.#isOver) return;
    this.#guard(() => {
      this.#end(failure);
      this.#sink.onFailure(failure, this);
    });
  }

  /** The call has got a connection, which may still have to connect. */
  begin(exchange: ClientExchange): void {
    this.#exchange = exchange;
    if (this.#isOver) exchange.abort();
  }

  /** The call has been assigned to an open connection. */
  onSent(): void {
    this.#hasBegun = true;
    this.#owner.begun(this);
  }

  onInterimHead(status: number, fields: FieldList): void {
    if (this.#isOver || this.status !== 0) return;
    if (++this.#interimHeads > maxInterimHeads) {
      this.fail({ kind: "reset", message: "the endpoint sends endless interim responses" });
      return;
    }
    // A client that expects 100 got it from the proxy (RFC 9110 §10.1.1), and 101 without a request for it is an error.
    if (status < firstForwardedInterim) return;
    // It has no body, and a client could take a length for that of one (RFC 9110 §8.6).
    this.#guard(() => this.#sink.onInterimHead?.(status, endToEndFields(fields, "content-length"), this));
  }

  onSwitched(fields: FieldList, stream: SwitchedStream): void {
    if (this.#isOver) {
      stream.destroy();
      return;
    }
    this.status = 101;
    this.#switched = stream;
    this.#owner.responded(this);
    stream.once("close", () => this.#release(undefined));
    this.#guard(() => this.#sink.onUpgrade?.(forwardedFields(fields), stream, this));
  }

  onHead(status: number, fields: FieldList): void {
    if (this.#isOver) return;
    this.status = status;
    this.#owner.responded(this);
    this.#guard(() => this.#sink.onHead(status, forwardedFields(fields), this));
  }

  onData(bytes: Buffer, isExclusive = false): void {
    if (this.#isOver) return;
    try {
      this.#sink.onData(bytes, isExclusive, this);
    } catch (error) {
      this.#onFault(error);
    }
  }

  onEnd(trailers: FieldList): void {
    if (!this.#release(undefined)) return;
    this.#guard(() => this.#sink.onEnd(trailers.length === 0 ? [] : forwardedFields(trailers), this));
  }

  onFailure(failure: UpstreamFailure): void {
    this.fail(failure);
  }

  /** An error of the sink must not reach the connection, nor other calls. */
  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#onFault(error);
    }
  }

  #onFault(error: unknown): void {
    this.abort();
    this.#sink.onFault(error, this);
  }

  /** Ends the call before its response is complete. */
  #end(failure: UpstreamFailure): void {
    if (this.#isOver) return;
    if (this.#switched !== undefined) {
      this.#switched.destroy();
      return;
    }
    this.#exchange?.abort();
    this.#release(failure);
  }

  /** @returns false if the call has ended before. */
  #release(failure: UpstreamFailure | undefined): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#exchange = undefined;
    // The rest of the client's body has to be read, and its end noticed.
    if (this.#body !== undefined && !Buffer.isBuffer(this.#body)) this.#body.cancel();
    this.#owner.release(this, failure);
    return true;
  }
}

/** The lowest status of an interim response that is forwarded. */
const firstForwardedInterim = 102;
/** Maximum number of interim responses (1xx). */
const maxInterimHeads = 16;

/**
 * Returns the fields that clients get. `x-envoy-ratelimited` is only for denials by a global limit, and clients would
 * take one of a backend for such a denial.
 */
function forwardedFields(fields: FieldList): string[] {
  return endToEndFields(fields, "x-envoy-ratelimited");
}
