/** Writes a body that is sent in parts, without further framing or in chunks (RFC 9112 §6.2, §7.1). */
import type { Socket } from "node:net";
import { joinedBytes, joinText } from "./field-text.ts";

/** The writer of one body. It does not send trailers; an intermediary may drop them (RFC 9110 §6.5.1). */
export class BodyWriter {
  readonly #socket: Socket;
  readonly #isChunked: boolean;

  constructor(socket: Socket, isChunked: boolean) {
    this.#socket = socket;
    this.#isChunked = isChunked;
  }

  /** @returns false if the peer reads too slowly: the socket emits "drain". */
  write(bytes: Buffer): boolean {
    const socket = this.#socket;
    if (!this.#isChunked) return socket.write(bytes);
    const size = `${bytes.length.toString(16)}\r\n`;
    if (bytes.length <= joinedBytes) return socket.write(joinText(size, bytes, "\r\n"));
    socket.cork();
    socket.write(size, "latin1");
    socket.write(bytes);
    const isFlowing = socket.write("\r\n", "latin1");
    socket.uncork();
    return isFlowing;
  }

  /** Ends the body. */
  end(): void {
    if (this.#isChunked) this.#socket.write("0\r\n\r\n", "latin1");
  }
}
