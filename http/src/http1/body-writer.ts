/** Writes a body that is sent in parts, without further framing or in chunks (RFC 9112 §6.2, §7.1). */
import type { Socket } from "node:net";
import { writeExclusive } from "../exclusive-bytes.ts";
import type { FieldList } from "../ports.ts";
import { joinedBytes, joinText, renderFieldLines } from "./field-text.ts";

/** The writer of one body. */
export class BodyWriter {
  readonly #socket: Socket;
  readonly #isChunked: boolean;

  constructor(socket: Socket, isChunked: boolean) {
    this.#socket = socket;
    this.#isChunked = isChunked;
  }

  /**
   * @param isExclusive whether the memory of `bytes` has no other user. It is released when they have been sent.
   * @returns false if the peer reads too slowly: the socket emits "drain".
   */
  write(bytes: Buffer, isExclusive: boolean): boolean {
    const socket = this.#socket;
    if (!this.#isChunked) return isExclusive ? writeExclusive(socket, bytes) : socket.write(bytes);
    const size = `${bytes.length.toString(16)}\r\n`;
    if (bytes.length <= joinedBytes) return socket.write(joinText(size, bytes, "\r\n"));
    socket.cork();
    socket.write(size, "latin1");
    if (isExclusive) writeExclusive(socket, bytes);
    else socket.write(bytes);
    const isFlowing = socket.write("\r\n", "latin1");
    socket.uncork();
    return isFlowing;
  }

  /**
   * Ends the body.
   *
   * @param trailers not sent after a body with a length, which has no trailer section (RFC 9112 §6.3).
   * @throws `TypeError` for an invalid name or value, such as one with a line break. Nothing is written then.
   */
  end(trailers: FieldList): void {
    if (this.#isChunked) this.#socket.write(`0\r\n${renderFieldLines(trailers)}\r\n`, "latin1");
  }
}
