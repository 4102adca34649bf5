/** Makes frames for tests, valid or not, as bytes. */

/** A frame to encode. */
export interface RawFrame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** Encodes a frame. */
export function rawFrame(type: number, flags: number, streamId: number, payload: Uint8Array | string = ""): Buffer {
  const content = Buffer.from(payload);
  const header = Buffer.alloc(9);
  header.writeUIntBE(content.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, content]);
}

/** Encodes a uint32, big endian. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
