/** HTTP/2 without a client or server library: sends the given frames and keeps the received ones. */
import { connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { startRawServer } from "./raw-backend.ts";

/** RFC 9113 §6 */
export const frameType = {
  data: 0,
  headers: 1,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
};
/** Flag of DATA and HEADERS. */
export const endStream = 1;
/** Flag of HEADERS and CONTINUATION. */
export const endHeaders = 4;

/** `GET / http` from HPACK's static table (RFC 7541 §A), and `:authority: a` as a literal. */
export const rootRequest = Buffer.from([0x82, 0x84, 0x86, 0x41, 0x01, 0x61]);

/** RFC 9113 §3.4 */
export const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/** A frame as bytes (RFC 9113 §4.1). */
export function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** The frames that were received completely. */
export function framesOf(bytes: Buffer): readonly Frame[] {
  const frames: Frame[] = [];
  for (let at = 0; at + 9 <= bytes.length; ) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    if (end > bytes.length) break;
    const [type, flags] = [bytes.readUInt8(at + 3), bytes.readUInt8(at + 4)];
    frames.push({ type, flags, stream: bytes.readUInt32BE(at + 5), payload: bytes.subarray(at + 9, end) });
    at = end;
  }
  return frames;
}

export interface RawHttp2 {
  readonly socket: Socket;
  /** All that the server has sent. */
  readonly received: () => Buffer;
}

/**
 * Connects to an `http://host:port` and sends the preface (RFC 9113 §3.4); the connection is closed when the test ends.
 */
export function openRawHttp2(url: string): RawHttp2 {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  // The server closes during writes.
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  socket.write(clientPreface);
  socket.write(frame(frameType.settings, 0, 0));
  return { socket, received: () => Buffer.concat(chunks) };
}

/**
 * A server without TLS; returns its port.
 *
 * @param respond is called with the complete frames of a read, and may write.
 */
export function startRawHttp2Backend(respond: (frames: readonly Frame[], socket: Socket) => void): Promise<number> {
  return startRawServer((socket) => {
    let rest = Buffer.alloc(0);
    let isGreeted = false;
    socket.write(frame(frameType.settings, 0, 0));
    socket.on("data", (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      if (!isGreeted && rest.length < clientPreface.length) return;
      if (!isGreeted) rest = rest.subarray(clientPreface.length);
      isGreeted = true;
      const frames = framesOf(rest);
      rest = rest.subarray(frames.reduce((bytes, { payload }) => bytes + 9 + payload.length, 0));
      respond(frames, socket);
    });
  });
}

/**
 * A header block of literals that enter no table (RFC 7541 §6.2.2).
 *
 * @param fields name and value, of at most 126 bytes each.
 */
export function literalBlock(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), literal(name), literal(value)]));
}

function literal(text: string): Buffer {
  if (text.length > 126) throw new Error(`a text of ${text.length} bytes`);
  return Buffer.concat([Buffer.of(text.length), Buffer.from(text, "latin1")]);
}

/** The head of a response without fields. */
export const okHead = literalBlock([[":status", "200"]]);

/** A number of four bytes, such as the increment of a WINDOW_UPDATE. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
