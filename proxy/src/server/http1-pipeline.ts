/**
 * The order of the requests on one HTTP/1.1 connection. Clients may send requests ahead of the answers (RFC 9112 §9.3.2).
 * One request is under way at a time and the others wait, so that a connection takes no more of a backend than one
 * request does, and no request overtakes an unsafe one before it.
 *
 * Once an answer says `Connection: close`, no further request is processed (RFC 9112 §9.6): whatever made us close, the
 * bytes behind it may not mean what they seem to.
 */

/** Requests that wait on a connection; as many as HTTP/2 clients may have open. The answer to the last one says close. */
export const maxWaitingRequests = 100;
/** From this many on nothing more is read. Below, a client that leaves is noticed while its requests wait. */
const waitingToPauseAt = 16;

export class Http1Pipeline {
  readonly #waiting: (() => void)[] = [];
  #isBusy = false;
  #isClosed = false;
  /** More has come than may wait, and was dropped. */
  #isCut = false;

  /** Whether a request is under way, or none may follow. */
  get isBusy(): boolean {
    return this.#isBusy || this.#isClosed;
  }

  /** Whether no request may follow the one that is under way. */
  get isLast(): boolean {
    return this.#isClosed || (this.#isCut && this.#waiting.length === 0);
  }

  /** Whether requests have come that are still to begin. */
  get hasWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** Whether nothing should be read of the client for now. */
  get isFull(): boolean {
    return this.#isClosed || this.#isCut || this.#waiting.length >= waitingToPauseAt;
  }

  /** @returns whether a request that has come may begin now; otherwise it has to `wait`. */
  tryBegin(): boolean {
    if (this.isBusy) return false;
    this.#isBusy = true;
    return true;
  }

  /** @param begin called when it is the request's turn; never where the connection closes before. */
  wait(begin: () => void): void {
    if (this.#isClosed || this.#isCut) return;
    if (this.#waiting.length < maxWaitingRequests) this.#waiting.push(begin);
    else this.#isCut = true;
  }

  /** The answer to the request under way has left: begins the next one. */
  next(): void {
    this.#isBusy = false;
    const begin = this.#waiting.shift();
    if (begin === undefined) return;
    this.#isBusy = true;
    begin();
  }

  /** Drops the requests that wait, and those to come. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.length = 0;
  }
}
