/** Writes Amazon's binary event streams (Smithy 2.0, "Amazon Event Stream Specification"). */
import { crc32 } from "node:zlib";

/** The content type of event streams. */
export const eventStreamType = "application/vnd.amazon.eventstream";

/** Returns the message of one event. */
export function eventMessage(type: string, payload: object): Buffer {
  const headers = Buffer.concat([
    stringHeader(":event-type", type),
    stringHeader(":content-type", "application/json"),
    stringHeader(":message-type", "event"),
  ]);
  const content = Buffer.from(JSON.stringify(payload));
  const lengths = numbers(headers.length + content.length + 16, headers.length);
  const message = Buffer.concat([lengths, numbers(crc32(lengths)), headers, content]);
  return Buffer.concat([message, numbers(crc32(message))]);
}

/** A name, the type of a string (7), and a value with its length in two bytes. */
function stringHeader(name: string, value: string): Buffer {
  return Buffer.from([name.length, ...Buffer.from(name), 7, 0, value.length, ...Buffer.from(value)]);
}

function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value, 4 * at);
  return bytes;
}
