/** HTTP/1 without a client library: sends the given bytes and reads the response until the end. */
import { connect } from "node:net";

export interface RawResponse {
  /** The heads of interim responses (1xx) before it, with their status lines. */
  readonly interim: readonly string[];
  /** 0 if the connection was closed without a response. */
  readonly status: number;
  /** The header section as received, without the status line; lines end with CRLF. */
  readonly head: string;
  /** Everything after the header section, chunk framing included. */
  readonly body: string;
}

/** Sends `request` (in latin1) to an `http://host:port` and resolves when the server has closed the connection. */
export function rawHttp(url: string, request: string): Promise<RawResponse> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(Number(port), hostname, () => socket.write(request, "latin1"));
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("error", reject);
    socket.on("close", () => resolve(parse(Buffer.concat(chunks).toString("latin1"))));
  });
}

function parse(text: string, interim: readonly string[] = []): RawResponse {
  const headEnd = text.indexOf("\r\n\r\n");
  const statusEnd = text.indexOf("\r\n");
  // 101 is final.
  if (/^HTTP\/1\.1 1(?!01)/.test(text)) return parse(text.slice(headEnd + 4), [...interim, text.slice(0, headEnd)]);
  return {
    interim,
    status: Number(text.slice(9, 12)),
    head: text.slice(statusEnd + 2, headEnd),
    body: headEnd === -1 ? "" : text.slice(headEnd + 4),
  };
}
