/**
 * Lines of a watch, each a JSON value. Split at line feeds alone: node:readline also splits at U+2028, which may stand
 * in any text of a resource.
 */
const lineFeed = 0x0a;

/** Gives each line parsed; throws for one that is no JSON, since to leave out an event would be to lose it. */
export async function* readJsonLines(body: AsyncIterable<Buffer>): AsyncGenerator<unknown, void> {
  let pending: Buffer[] = [];
  for await (const chunk of body) {
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
      const line = Buffer.concat([...pending, chunk.subarray(start, end)]);
      pending = [];
      start = end + 1;
      if (line.length > 0) yield JSON.parse(line.toString("utf8"));
    }
    if (start < chunk.length) pending.push(chunk.subarray(start));
  }
  // What follows the last line feed was cut off: the event comes again with the next watch.
}
