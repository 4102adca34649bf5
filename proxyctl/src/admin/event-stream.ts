/** Server-sent events (WHATWG HTML, section 9.2), as far as the admin server sends them: comments and `data` lines. */

export type StreamItem =
  | { readonly kind: "comment"; readonly text: string }
  | { readonly kind: "data"; readonly text: string };

/** Each comment, and the data of each event, as they arrive; ends with the stream. An unfinished line is dropped. */
export async function* readEvents(chunks: AsyncIterable<Buffer>): AsyncGenerator<StreamItem, void, undefined> {
  const decoder = new TextDecoder();
  let text = "";
  let data: string[] = [];
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true });
    const lines = text.split(/\r?\n/);
    text = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) yield { kind: "data", text: data.join("\n") };
        data = [];
      } else if (line.startsWith(":")) yield { kind: "comment", text: line.slice(1).trim() };
      else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    }
  }
}
