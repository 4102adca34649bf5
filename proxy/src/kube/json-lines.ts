/**
 * Reads the lines of a watch, each a JSON value. Lines are split at line feeds only. node:readline also splits at
 * U+2028, which may occur in any text of a resource.
 */
import { parseBounded } from "./bounded-json.ts";

const lineFeed = 0x0a;

/** Yields each parsed line. Throws for invalid JSON, because an event must not be skipped. */
export async function* readJsonLines(body: AsyncIterable<Buffer>): AsyncGenerator<unknown, void> {
  let pending: Buffer[] = [];
  for await (const chunk of body) {
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
      const line = Buffer.concat([...pending, chunk.subarray(start, end)]);
      pending = [];
      start = end + 1;
      if (line.length > 0) yield parseBounded(line);
    }
    if (start < chunk.length) pending.push(chunk.subarray(start));
  }
  // An incomplete last line is dropped: the next watch delivers the event again.
}
