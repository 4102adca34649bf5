/** A client that sends any frames, valid or not, and records the frames that it receives. */
import { connect, type Socket } from "node:net";
import { type RawFrame, rawFrame } from "./raw-frame.ts";
import { clientPreface, FrameReader, FrameType } from "../frame.ts";
import { encodeHeaderBlock } from "../hpack/hpack-encoder.ts";

/** Encodes a header block that begins a request. */
export function requestBlock(...fields: readonly string[]): Buffer {
  return encodeHeaderBlock([":method", "POST", ":scheme", "http", ":path", "/echo", ":authority", "test", ...fields]);
}

export class RawClient {
  readonly socket: Socket;
  readonly frames: RawFrame[] = [];
  /** All received bytes, for responses that are not frames. */
  text = "";
  isClosed = false;
  readonly #waiters = new Set<() => void>();

  /** Connects; with `sendPreface` it sends the preface and empty SETTINGS. */
  constructor(port: number, sendPreface = true) {
    const reader = new FrameReader((type, flags, streamId, buffer, start, end) => {
      this.frames.push({ type, flags, streamId, payload: Buffer.from(buffer.subarray(start, end)) });
    });
    this.socket = connect(port, "127.0.0.1");
    this.socket.on("data", (chunk: Buffer) => {
      this.text += chunk.toString("latin1");
      if (sendPreface) reader.read(chunk);
      this.#wake();
    });
    this.socket.on("close", () => {
      this.isClosed = true;
      this.#wake();
    });
    this.socket.on("error", () => undefined);
    if (sendPreface) this.send(clientPreface, rawFrame(FrameType.Settings, 0, 0));
  }

  send(...parts: readonly Uint8Array[]): void {
    this.socket.write(Buffer.concat(parts));
  }

  /** Resolves with what `find` returns as soon as it is not undefined; rejects when the connection ends before. */
  async until<T>(find: () => T | undefined): Promise<T> {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (this.isClosed) throw new Error(`closed; frames so far: ${JSON.stringify(this.frames)}`);
      await new Promise<void>((resolve) => this.#waiters.add(resolve));
    }
  }

  /** Resolves with the next frame of that type, on that stream if one is given. */
  frame(type: number, streamId?: number): Promise<RawFrame> {
    return this.until(() =>
      this.frames.find((frame) => frame.type === type && (streamId === undefined || frame.streamId === streamId)),
    );
  }

  /** Resolves when the server has closed the connection. */
  async closed(): Promise<void> {
    await this.until(() => (this.isClosed ? true : undefined));
  }

  /** Resolves with the error code of the next GOAWAY or RST_STREAM. */
  async errorCode(): Promise<{ readonly frame: "GOAWAY" | "RST_STREAM"; readonly code: number }> {
    return this.until(() => {
      for (const { type, payload } of this.frames) {
        if (type === FrameType.GoAway) return { frame: "GOAWAY", code: payload.readUInt32BE(4) };
        if (type === FrameType.RstStream) return { frame: "RST_STREAM", code: payload.readUInt32BE(0) };
      }
      return undefined;
    });
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  }
}
