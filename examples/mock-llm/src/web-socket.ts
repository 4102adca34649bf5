/** A WebSocket as a server has it (RFC 6455), for small messages of text: no extensions, and no message in parts. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

/** RFC 6455 §1.3 */
const acceptSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const [text, close, ping, pong] = [0x1, 0x8, 0x9, 0xa] as const;
/** Longer messages of a client close the connection. */
const maxMessageBytes = 1024 * 1024;

/** The connection to one client. */
export interface ServerSocket {
  /** Sends a message; has no effect after the end. */
  send(message: string): void;
  /** Closes the connection without a close frame. */
  abort(): void;
  readonly isOpen: boolean;
}

/** Accepts a request for a WebSocket. @param onMessage called with each message of text. */
export function acceptWebSocket(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  onMessage: (message: string) => void,
): ServerSocket {
  const key = request.headers["sec-websocket-key"]?.toString() ?? "";
  const accept = createHash("sha1").update(`${key}${acceptSuffix}`).digest("base64");
  const fields = ["Upgrade: websocket", "Connection: Upgrade", `Sec-WebSocket-Accept: ${accept}`];
  socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields.join("\r\n")}\r\n\r\n`);
  // Clients may disconnect at any time.
  socket.on("error", () => socket.destroy());
  let buffered = head;
  const read = (): void => {
    for (let frame = readFrame(buffered); frame !== undefined; frame = readFrame(buffered)) {
      buffered = buffered.subarray(frame.length);
      if (frame.opcode === text) onMessage(frame.payload.toString());
      else if (frame.opcode === ping) socket.write(frameOf(pong, frame.payload));
      else if (frame.opcode === close) socket.end(frameOf(close, frame.payload.subarray(0, 2)));
    }
    if (buffered.length > maxMessageBytes) socket.destroy();
  };
  socket.on("data", (chunk: Buffer) => {
    buffered = Buffer.concat([buffered, chunk]);
    read();
  });
  read();
  return {
    send(message) {
      if (socket.writable) socket.write(frameOf(text, Buffer.from(message)));
    },
    abort: () => void socket.destroy(),
    get isOpen() {
      return socket.writable;
    },
  };
}

interface Frame {
  readonly opcode: number;
  readonly payload: Buffer;
  /** With its header. */
  readonly length: number;
}

/** @returns undefined if the frame is not complete. */
function readFrame(bytes: Buffer): Frame | undefined {
  if (bytes.length < 2) return undefined;
  const short = (bytes[1] ?? 0) & 0x7f;
  const start = short < 126 ? 2 : short === 126 ? 4 : 10;
  if (bytes.length < start + 4) return undefined;
  const size = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  const length = start + 4 + size;
  if (bytes.length < length) return undefined;
  const payload = Buffer.from(bytes.subarray(start + 4, length));
  for (let at = 0; at < size; at++) payload[at] = (payload[at] ?? 0) ^ (bytes[start + (at & 3)] ?? 0);
  return { opcode: (bytes[0] ?? 0) & 0x0f, payload, length };
}

function frameOf(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = 0x80 | opcode;
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}
