/** Writes messages of Amazon's binary event streams, for tests. */
import { crc32 } from "node:zlib";

/** A message with headers of type string (7), in the order of the object. */
export function eventStreamMessage(headers: Readonly<Record<string, string>>, payload: string | Buffer): Buffer {
  const encodedHeaders = Object.entries(headers).map(([name, value]) => encodeHeader(name, value));
  const headersLength = encodedHeaders.reduce((sum, { length }) => sum + length, 0);
  const content = Buffer.from(payload);
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + headersLength + content.length, 0);
  prelude.writeUInt32BE(headersLength, 4);
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8);
  const message = Buffer.concat([prelude, ...encodedHeaders, content]);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(message), 0);
  return Buffer.concat([message, checksum]);
}

/** A message of one event, as Bedrock sends it. */
export function bedrockEvent(type: string, payload: unknown): Buffer {
  const headers = { ":event-type": type, ":content-type": "application/json", ":message-type": "event" };
  return eventStreamMessage(headers, JSON.stringify(payload));
}

/** An event of InvokeModelWithResponseStream, with an event of the model in base64. */
export function bedrockChunk(event: unknown): Buffer {
  return bedrockEvent("chunk", { bytes: Buffer.from(JSON.stringify(event)).toString("base64"), p: "abcdefghijk" });
}

function encodeHeader(name: string, value: string): Buffer {
  const lengths = Buffer.from([7, value.length >> 8, value.length & 0xff]);
  return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), lengths, Buffer.from(value)]);
}
