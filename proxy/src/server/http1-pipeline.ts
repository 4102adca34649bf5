/**
 * The order of the requests on an HTTP/1.1 connection. Clients may send requests before the previous response (RFC 9112 §9.3.2).
 * One request is in progress at a time and the others wait, so that a connection takes no more of a backend than one
 * request does, and no request overtakes an unsafe one before it.
 *
 * After a response with `Connection: close`, no further request is processed (RFC 9112 §9.6): whatever made us close, the
 * bytes behind it may not mean what they seem to.
 */
import { HeadCounts } from "./connection.ts";

/** Maximum pending requests of a connection, as many as the streams in HTTP/2. The response to the last one has close. */
export const maxWaitingRequests = 100;
/** From this many on nothing more is read. Below, a client that leaves is noticed while its requests wait. */
const waitingToPauseAt = 16;
/** The same for the memory that they take: as much as one head may have. */
const waitingBytesToPauseAt = 64 * 1024;

interface WaitingRequest {
  readonly begin: () => void;
  readonly bytes: number;
}

/**
 * The requests of one HTTP/1.1 connection: at most one in progress, and up to 100 that wait. Reading pauses from 16
 * waiting requests or 64 KiB on.
 */
export class Http1Pipeline {
  readonly #waiting: WaitingRequest[] = [];
  readonly #heads: HeadCounts;
  #isBusy = false;
  #isClosed = false;
  /** Nothing more is taken: more has come than may wait, or what comes cannot be read as requests. */
  #isCut = false;

  constructor(heads = new HeadCounts()) {
    this.#heads = heads;
  }

  /** Whether a request is in progress, or none may follow. */
  get isBusy(): boolean {
    return this.#isBusy || this.#isClosed;
  }

  /** Whether no request may follow the one in progress. */
  get isLast(): boolean {
    return this.#isClosed || (this.#isCut && this.#waiting.length === 0);
  }

  /** Whether requests have come that are still to begin. */
  get hasWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** Whether every request that is still to come is dropped. */
  get isOver(): boolean {
    return this.#isClosed || this.#isCut;
  }

  /** Whether nothing should be read of the client for now. */
  get isFull(): boolean {
    if (this.isOver) return true;
    return this.#waiting.length >= waitingToPauseAt || this.#heads.heldBytes >= waitingBytesToPauseAt;
  }

  /** @returns whether a request that has come may begin now; otherwise it has to `wait`. */
  tryBegin(): boolean {
    if (this.isBusy) return false;
    this.#isBusy = true;
    return true;
  }

  /**
   * @param begin called when it is the request's turn; never where the connection closes before.
   * @param bytes of memory that it takes. Node keeps a request that is dropped here until the connection closes.
   */
  wait(begin: () => void, bytes: number): void {
    this.#heads.heldBytes += bytes;
    if (this.isOver) return;
    if (this.#waiting.length < maxWaitingRequests) this.#waiting.push({ begin, bytes });
    else this.#isCut = true;
  }

  /** The response to the request in progress has been sent: starts the next one. */
  next(): void {
    this.#isBusy = false;
    const next = this.#waiting.shift();
    if (next === undefined) return;
    this.#heads.heldBytes -= next.bytes;
    this.#isBusy = true;
    next.begin();
  }

  /** Accepts no further requests. Those that have arrived get their response, the last one with close. */
  cut(): void {
    this.#isCut = true;
  }

  /** Drops the requests that wait, and those to come. Their memory stays held, see `wait`. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.length = 0;
  }
}
