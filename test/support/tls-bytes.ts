/** The encoding of TLS messages (RFC 8446 §3), for clients that send what node:tls does not. */

/** Returns a number of two bytes. */
export function u16(value: number): Buffer {
  return Buffer.from([value >> 8, value & 0xff]);
}

/** Returns a vector: its length, in `lengthBytes` bytes, and its parts. */
export function vector(lengthBytes: 1 | 2 | 3, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const length = Buffer.alloc(lengthBytes);
  length.writeUIntBE(content.length, 0, lengthBytes);
  return Buffer.concat([length, content]);
}

/** Returns an extension of a ClientHello (RFC 8446 §4.2). */
export function extension(type: number, content: Buffer): Buffer {
  return Buffer.concat([u16(type), vector(2, content)]);
}
