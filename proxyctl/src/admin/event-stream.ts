/**
 * Parses server-sent events (WHATWG HTML, section 9.2), as far as the admin server uses them: comments and `data`
 * lines.
 */

/** An item of an event stream. */
export type StreamItem =
  | { readonly kind: "comment"; readonly text: string }
  | { readonly kind: "data"; readonly text: string };

/** Yields each comment, and the data of each event, as they arrive. An unfinished line at the end is dropped. */
export async function* readEvents(chunks: AsyncIterable<Buffer>): AsyncGenerator<StreamItem, void, undefined> {
  const decoder = new TextDecoder();
  let unfinished: string[] = [];
  let data: string[] = [];
  for await (const chunk of chunks) {
    const text = decoder.decode(chunk, { stream: true });
    unfinished.push(text);
    // A long line is split once, not again with each chunk.
    if (!text.includes("\n")) continue;
    const lines = unfinished.join("").split(/\r?\n/);
    unfinished = [lines.pop() ?? ""];
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) yield { kind: "data", text: data.join("\n") };
        data = [];
      } else if (line.startsWith(":")) {
        yield { kind: "comment", text: line.slice(1).trim() };
      } else if (line.startsWith("data:")) {
        data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  }
}
