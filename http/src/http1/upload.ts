/** Sends the body of a request that arrives in parts, with a length or in chunks (RFC 9112 §6.2, §7.1). */
import type { Socket } from "node:net";
import type { BodyReceiver, OutgoingBody } from "../ports.ts";
import { joinedBytes, joinText } from "./field-text.ts";

/** The owner of an upload. */
export interface UploadOwner {
  /** Bytes of the body were written. */
  onProgress(): void;
  /** All of the body has been written. */
  onUploaded(): void;
  /** The body cannot be completed: its source has ended early (`aborted`), or has another length than announced (`reset`). */
  onUploadFailed(kind: "aborted" | "reset", message: string): void;
}

/** The sending of one body. Trailers are not sent, which an intermediary may drop (RFC 9110 §6.5.1). */
export class Upload implements BodyReceiver {
  readonly #socket: Socket;
  readonly #body: OutgoingBody;
  readonly #owner: UploadOwner;
  /** Bytes that are to be written; `chunked` for any number. */
  #remaining: number | "chunked";
  #isOver = false;

  constructor(socket: Socket, body: OutgoingBody, length: number | "chunked", owner: UploadOwner) {
    this.#socket = socket;
    this.#body = body;
    this.#remaining = length;
    this.#owner = owner;
  }

  /** Whether all of the body has been written, or `cancel` was called. */
  get isOver(): boolean {
    return this.#isOver;
  }

  start(): void {
    this.#body.read(this);
  }

  onData(bytes: Buffer): void {
    if (this.#isOver) return;
    if (this.#remaining !== "chunked") {
      if (bytes.length > this.#remaining) {
        this.#fail("reset", "the body of the request is longer than its Content-Length");
        return;
      }
      this.#remaining -= bytes.length;
    }
    this.#owner.onProgress();
    if (!this.#write(bytes)) this.#body.pause();
  }

  #write(bytes: Buffer): boolean {
    const socket = this.#socket;
    if (this.#remaining !== "chunked") return socket.write(bytes);
    const size = `${bytes.length.toString(16)}\r\n`;
    if (bytes.length <= joinedBytes) return socket.write(joinText(size, bytes, "\r\n"));
    socket.cork();
    socket.write(size, "latin1");
    socket.write(bytes);
    const isFlowing = socket.write("\r\n", "latin1");
    socket.uncork();
    return isFlowing;
  }

  onEnd(): void {
    if (this.#isOver) return;
    if (this.#remaining === "chunked") {
      this.#socket.write("0\r\n\r\n", "latin1");
    } else if (this.#remaining > 0) {
      this.#fail("reset", "the body of the request is shorter than its Content-Length");
      return;
    }
    this.#isOver = true;
    this.#owner.onUploaded();
  }

  onAborted(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#owner.onUploadFailed("aborted", "the body of the request has no end, since its source has failed");
  }

  /** The server reads on. */
  onDrain(): void {
    if (this.#isOver) return;
    this.#owner.onProgress();
    this.#body.resume();
  }

  /** Ends the upload. */
  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#body.cancel();
  }

  #fail(kind: "reset", message: string): void {
    this.cancel();
    this.#owner.onUploadFailed(kind, message);
  }
}
