/** A real HTTP server as the backend of a test: it responds as the test says and records the requests. */
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface TestBackend {
  readonly port: number;
  /** Every request whose head was received, in that order. */
  readonly requests: readonly IncomingMessage[];
}

/** Listens on a free port of 127.0.0.1 until the test ends. */
export async function startBackend(respond: RequestListener = echo): Promise<TestBackend> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    respond(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  // A TCP server that listens has such an address.
  return { port: (server.address() as AddressInfo).port, requests };
}

/** The body of the response of `echo`, as JSON. */
export interface Echo {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Responds with the request. */
export function echo(request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const { method, url, headers } = request;
    const text = JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() });
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
    response.end(text);
  });
}

/** Responds with a status and a text. */
export function respondWith(status: number, text = ""): RequestListener {
  return (_request, response) => {
    response.statusCode = status;
    // Without `writeHead`, Node sends the length.
    response.setHeader("content-type", "text/plain").end(text);
  };
}
