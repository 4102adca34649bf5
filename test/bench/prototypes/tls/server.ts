/**
 * A server of one fixed response, whose TLS is done in one of several ways: `server.ts VARIANT PORT`. The certificate
 * and its key are PEM in CERTIFICATE and KEY.
 */
import { createServer as createTcpServer, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";

/**
 * - `plain`: no TLS.
 * - `as in the proxy`: reads are events of the socket, and a response is written as one buffer.
 * - `text`: as in the proxy, with a response that is written as text.
 * - `reused buffer`: as in the proxy, with reads into one buffer.
 */
export const tlsVariants = ["plain", "as in the proxy", "text", "reused buffer"] as const;
type TlsVariant = (typeof tlsVariants)[number];

const body = "x".repeat(1_024);
const response = `HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
const endOfHead = Buffer.from("\r\n\r\n");

/** Responds to each request without a body. A read of the load generator is one request. */
function onBytes(socket: Socket, bytes: Buffer, variant: TlsVariant): void {
  if (!bytes.subarray(-endOfHead.length).equals(endOfHead)) throw new Error("a read is not one request");
  if (variant === "text") socket.write(response, "latin1");
  else socket.write(Buffer.from(response, "latin1"));
}

/** One buffer for the reads of all sockets. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1_024);

/**
 * Reads an accepted socket as the option `onread` of `connect` does. Node.js has no public way to do that, so this sets
 * the properties that the option sets. A release may rename them.
 */
function readIntoBuffer(socket: TLSSocket): void {
  const internals = socket as unknown as Record<symbol, unknown> & {
    readonly _handle: { useUserBuffer: (buffer: Buffer) => void };
  };
  // They are inherited or own, and there is one of each name.
  const symbolOf = (name: string): symbol => {
    for (let object: unknown = socket; object !== null; object = Object.getPrototypeOf(object)) {
      const found = Object.getOwnPropertySymbols(object).find(({ description }) => description === name);
      if (found !== undefined) return found;
    }
    throw new Error(`the socket has no property ${name}`);
  };
  internals[symbolOf("kBuffer")] = readBuffer;
  internals[symbolOf("kBufferCb")] = (length: number) => {
    onBytes(socket, readBuffer.subarray(0, length), "reused buffer");
    return true;
  };
  internals._handle.useUserBuffer(readBuffer);
  socket.resume();
}

function isVariant(text: string | undefined): text is TlsVariant {
  return tlsVariants.some((variant) => variant === text);
}

if (import.meta.main) {
  const [, , variant, port] = process.argv;
  if (!isVariant(variant)) throw new Error(`the variant is ${String(variant)}; it is one of ${tlsVariants.join(", ")}`);
  const { CERTIFICATE: cert, KEY: key } = process.env;
  const tls = createTlsServer({ cert, key }, (socket) => {
    socket.on("error", () => socket.destroy());
    if (variant === "reused buffer") readIntoBuffer(socket);
    else socket.on("data", (bytes: Buffer) => onBytes(socket, bytes, variant));
  });
  createTcpServer({ noDelay: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    if (variant === "plain") socket.on("data", (bytes: Buffer) => onBytes(socket, bytes, variant));
    else tls.emit("connection", socket);
  }).listen(Number(port), "127.0.0.1");
}
