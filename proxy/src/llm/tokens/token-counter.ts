/**
 * Counts the tokens of requests in the thread that has the tables of the encodings, for the event loop of one worker.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Encoding } from "./encoding.ts";

/** A message to the thread: load an encoding, or count the prompt of a body. */
export type ToTokenThread =
  | { readonly kind: "load"; readonly encoding: Encoding }
  | { readonly kind: "count"; readonly id: number; readonly encoding: Encoding; readonly body: Uint8Array };

/** A message of the thread: an encoding is loaded, or the tokens of a body; undefined for one without a prompt. */
export type FromTokenThread =
  | { readonly kind: "loaded"; readonly encoding: Encoding }
  | { readonly kind: "counted"; readonly id: number; readonly tokens: number | undefined };

/** One end of the connection with the thread, such as a `MessagePort`. */
export interface TokenPort<Sent, Received> {
  postMessage(message: Sent, transferred: ArrayBuffer[]): void;
  on(event: "message", receive: (message: Received) => void): unknown;
  on(event: "close", ended: () => void): unknown;
  close(): void;
}

type Port = TokenPort<ToTokenThread, FromTokenThread>;

/** Bytes of a body that is counted. */
export const maxCountedBytes = 262_144;
/** Longest time that a request waits, in ms. */
const maxWaitMs = 100;
/**
 * Requests that the thread has not counted yet, and the bytes of their bodies. Those whose wait has ended are among
 * them, since a message cannot be taken back. Further requests do without.
 */
const maxUncounted = 64;
const maxUncountedBytes = 4 * maxCountedBytes;
/** The time before a thread that has ended is connected again, in ms. */
const reconnectMs = 10_000;

interface Waiting {
  readonly done: (tokens: number | undefined) => void;
  readonly timer: Timer;
}

/** The counter of one worker. It connects to the thread with the first request for a known model. */
export class TokenCounter {
  readonly #clock: Clock;
  readonly #connect: () => Port;
  readonly #waiting = new Map<number, Waiting>();
  /** The bytes of the bodies that the thread has not counted yet, by request. */
  readonly #uncounted = new Map<number, number>();
  #uncountedBytes = 0;
  readonly #requested = new Set<Encoding>();
  readonly #loaded = new Set<Encoding>();
  #port: Port | undefined;
  #endedMs = Number.NEGATIVE_INFINITY;
  #lastId = 0;

  /** @param connect opens a connection with the thread. */
  constructor(clock: Clock, connect: () => Port) {
    this.#clock = clock;
    this.#connect = connect;
  }

  /**
   * Calls `done` once with the tokens of a request's prompt, at the latest after 100 ms. Undefined if they are not
   * known: the body is longer than 256 KiB or no JSON, the encoding is being loaded, or the thread is busy.
   *
   * @param body is copied.
   */
  count(encoding: Encoding, body: Buffer, done: (tokens: number | undefined) => void): void {
    const port = this.#portFor(encoding);
    if (port === undefined || body.length > maxCountedBytes || !this.#hasRoomFor(body.length)) {
      done(undefined);
      return;
    }
    const id = ++this.#lastId;
    const timer = this.#clock.setTimer(maxWaitMs, () => this.#end(id, undefined));
    this.#waiting.set(id, { done, timer });
    this.#uncounted.set(id, body.length);
    this.#uncountedBytes += body.length;
    const copy = new Uint8Array(body);
    port.postMessage({ kind: "count", id, encoding, body: copy }, [copy.buffer]);
  }

  /** Ends the connection. The tokens of requests that wait are then not known. */
  close(): void {
    this.#port?.close();
  }

  #hasRoomFor(bytes: number): boolean {
    return this.#uncounted.size < maxUncounted && this.#uncountedBytes + bytes <= maxUncountedBytes;
  }

  /** Returns the port if the thread has loaded the encoding. */
  #portFor(encoding: Encoding): Port | undefined {
    const port = this.#port ?? this.#open();
    if (port !== undefined && !this.#requested.has(encoding)) {
      this.#requested.add(encoding);
      port.postMessage({ kind: "load", encoding }, []);
    }
    return this.#loaded.has(encoding) ? port : undefined;
  }

  #open(): Port | undefined {
    if (this.#clock.monotonicMs() - this.#endedMs < reconnectMs) return undefined;
    const port = this.#connect();
    this.#port = port;
    port.on("message", (message) => {
      if (message.kind === "loaded") this.#loaded.add(message.encoding);
      else this.#counted(message.id, message.tokens);
    });
    port.on("close", () => this.#ended());
    return port;
  }

  #ended(): void {
    this.#port = undefined;
    this.#endedMs = this.#clock.monotonicMs();
    this.#requested.clear();
    this.#loaded.clear();
    this.#uncounted.clear();
    this.#uncountedBytes = 0;
    for (const id of [...this.#waiting.keys()]) this.#end(id, undefined);
  }

  #counted(id: number, tokens: number | undefined): void {
    this.#uncountedBytes -= this.#uncounted.get(id) ?? 0;
    this.#uncounted.delete(id);
    this.#end(id, tokens);
  }

  #end(id: number, tokens: number | undefined): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    waiting.timer.cancel();
    waiting.done(tokens);
  }
}
