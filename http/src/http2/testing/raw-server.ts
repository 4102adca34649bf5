/** A server that sends scripted frames, valid or not, and records the frames that it receives. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { clientPreface, FrameReader, FrameType } from "../frame.ts";
import { type RawFrame, rawFrame } from "./raw-frame.ts";

/** One connection of a client. */
export class RawPeer {
  readonly socket: Socket;
  readonly frames: RawFrame[] = [];
  /** Frames by the chunk that contained them. */
  readonly chunks: RawFrame[][] = [];
  isClosed = false;
  readonly #waiters = new Set<() => void>();
  #preface: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.socket = socket;
    const reader = new FrameReader((type, flags, streamId, buffer, start, end) => {
      const frame = { type, flags, streamId, payload: Buffer.from(buffer.subarray(start, end)) };
      this.frames.push(frame);
      this.chunks.at(-1)?.push(frame);
    });
    socket.on("data", (chunk: Buffer) => {
      this.chunks.push([]);
      reader.read(this.#afterPreface(chunk));
      this.#wake();
    });
    socket.on("close", () => {
      this.isClosed = true;
      this.#wake();
    });
    socket.on("error", () => undefined);
  }

  send(...parts: readonly Uint8Array[]): void {
    this.socket.write(Buffer.concat(parts));
  }

  /** Returns the received frames of a type, of one stream if given. */
  got(type: number, streamId?: number): RawFrame[] {
    return this.frames.filter((frame) => frame.type === type && (streamId ?? frame.streamId) === frame.streamId);
  }

  /** Resolves with the frame of a type at that count; rejects if the connection ends before. */
  async until(type: number, count = 1, streamId?: number): Promise<RawFrame> {
    for (;;) {
      const found = this.got(type, streamId)[count - 1];
      if (found !== undefined) return found;
      if (this.isClosed) throw new Error(`closed; frames so far: ${JSON.stringify(this.frames)}`);
      await new Promise<void>((resolve) => this.#waiters.add(resolve));
    }
  }

  async closed(): Promise<void> {
    while (!this.isClosed) await new Promise<void>((resolve) => this.#waiters.add(resolve));
  }

  #afterPreface(chunk: Buffer): Buffer {
    const missing = clientPreface.length - this.#preface.length;
    if (missing === 0) return chunk;
    this.#preface = Buffer.concat([this.#preface, chunk.subarray(0, missing)]);
    return chunk.subarray(missing);
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  }
}

export class RawServer {
  readonly #server: Server;
  readonly #preface: Buffer | undefined;
  readonly peers: RawPeer[] = [];
  readonly #waiters = new Set<() => void>();

  private constructor(preface: Buffer | undefined) {
    this.#preface = preface;
    this.#server = createServer((socket) => {
      const peer = new RawPeer(socket);
      this.peers.push(peer);
      if (this.#preface !== undefined) peer.send(this.#preface);
      for (const wake of this.#waiters) wake();
      this.#waiters.clear();
    });
  }

  /**
   * Listens on 127.0.0.1 until the test ends.
   *
   * @param preface The bytes that it sends to each connection; undefined for none.
   */
  static async start(preface: Buffer | undefined = rawFrame(FrameType.Settings, 0, 0)): Promise<RawServer> {
    const server = new RawServer(preface);
    server.#server.listen(0, "127.0.0.1");
    await once(server.#server, "listening");
    onTestFinished(() => {
      for (const { socket } of server.peers) socket.destroy();
      server.#server.close();
    });
    return server;
  }

  get port(): number {
    // A listening TCP server has such an address.
    return (this.#server.address() as AddressInfo).port;
  }

  /** Resolves with the connection of that number, from 1. */
  async peer(number = 1): Promise<RawPeer> {
    for (;;) {
      const peer = this.peers[number - 1];
      if (peer !== undefined) return peer;
      await new Promise<void>((resolve) => this.#waiters.add(resolve));
    }
  }
}
