/** HTTP/1 without a client in between: sends the bytes it is given and reads what comes back until the end. */
import { connect } from "node:net";

export interface RawAnswer {
  /** 0 when the connection was closed without an answer. */
  readonly status: number;
  /** The header section as it came, without the status line; lines end with CRLF. */
  readonly head: string;
  /** What followed the header section, chunk framing included. */
  readonly body: string;
}

/** Sends `request` (in latin1) to an `http://host:port` and resolves when the server has closed the connection. */
export function rawHttp(url: string, request: string): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(Number(port), hostname, () => socket.write(request, "latin1"));
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("error", reject);
    socket.on("close", () => resolve(parse(Buffer.concat(chunks).toString("latin1"))));
  });
}

function parse(text: string): RawAnswer {
  const headEnd = text.indexOf("\r\n\r\n");
  const statusEnd = text.indexOf("\r\n");
  return {
    status: Number(text.slice(9, 12)),
    head: text.slice(statusEnd + 2, headEnd),
    body: headEnd === -1 ? "" : text.slice(headEnd + 4),
  };
}
