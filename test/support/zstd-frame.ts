/** A frame of zstd with a window of the given size (RFC 8878 §3.1.1). */

/** @param windowLog 10 to 41: the frame says that a decoder must look back by 2^windowLog bytes. */
export function zstdFrame(windowLog: number, content: string): Buffer {
  const bytes = Buffer.from(content);
  const header = Buffer.alloc(9);
  header.writeUInt32LE(0xfd2fb528, 0);
  // No length, no checksum, no dictionary.
  header[4] = 0;
  header[5] = (windowLog - 10) << 3;
  // The last block, which is raw.
  header.writeUIntLE(bytes.length * 8 + 1, 6, 3);
  return Buffer.concat([header, bytes]);
}
