/** Reads the body of a request that arrives in parts, for a client that sends it. */
import type { BodyReceiver, FieldList, OutgoingBody } from "./ports.ts";

/** The request of an upload. */
export interface UploadOwner {
  /**
   * Sends bytes of the body.
   *
   * @param isExclusive as for `ServerExchange.write`.
   * @returns false if the server reads too slowly: `Upload.onDrain` follows.
   */
  sendBody(bytes: Buffer, isExclusive: boolean): boolean;
  /** Ends the body. @param trailers empty for none. */
  endBody(trailers: FieldList): void;
  /**
   * Called when the body cannot be completed: its source has ended early (`aborted`), or its length differs from the
   * content-length (`reset`).
   */
  onUploadFailed(kind: "aborted" | "reset", message: string): void;
}

/** The sending of one body, which is paused while the server reads slowly. */
export class Upload implements BodyReceiver {
  readonly #body: OutgoingBody;
  readonly #owner: UploadOwner;
  /** Bytes that are still to be sent; undefined for any number. */
  #remaining: number | undefined;
  #isOver = false;

  /** @param length the content-length in bytes; undefined if there is none. */
  constructor(body: OutgoingBody, length: number | undefined, owner: UploadOwner) {
    this.#body = body;
    this.#remaining = length;
    this.#owner = owner;
  }

  /** Whether all of the body has been sent, or `cancel` was called. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Starts to read the body. */
  start(): void {
    if (!this.#isOver) this.#body.read(this);
  }

  onData(bytes: Buffer, isExclusive = false): void {
    if (this.#isOver) return;
    if (this.#remaining !== undefined) {
      if (bytes.length > this.#remaining) {
        this.#fail("the body of the request is longer than its Content-Length");
        return;
      }
      this.#remaining -= bytes.length;
    }
    if (!this.#owner.sendBody(bytes, isExclusive)) this.#body.pause();
  }

  onEnd(trailers: FieldList): void {
    if (this.#isOver) return;
    if (this.#remaining !== undefined && this.#remaining > 0) {
      this.#fail("the body of the request is shorter than its Content-Length");
      return;
    }
    this.#isOver = true;
    this.#owner.endBody(trailers);
  }

  onAborted(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#owner.onUploadFailed("aborted", "the body of the request has no end, since its source has failed");
  }

  /** Resumes the upload. Called when the server can take more bytes. */
  onDrain(): void {
    if (!this.#isOver) this.#body.resume();
  }

  /** Ends the upload. */
  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#body.cancel();
  }

  #fail(message: string): void {
    this.cancel();
    this.#owner.onUploadFailed("reset", message);
  }
}
