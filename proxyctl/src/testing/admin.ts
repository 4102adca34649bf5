/** An admin server with scripted responses on a loopback port, for responses that no healthy proxy sends. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createMute } from "node:net";
import { onTestFinished } from "vitest";

/** Accepts connections and sends nothing. Resolves with its `127.0.0.1:PORT`. */
export async function startMute(): Promise<string> {
  const server = createMute((socket) => {
    socket.on("error", () => undefined);
    onTestFinished(() => void socket.destroy());
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  // A TCP server that listens has such an address.
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/**
 * Responses by `METHOD /path`, without the query: a string is the body of a 200 response, a function responds itself.
 */
export type AdminScript = Readonly<
  Record<string, string | object | ((request: IncomingMessage, response: ServerResponse) => void)>
>;

/** A running admin server. */
export interface ScriptedAdmin {
  /** `127.0.0.1:PORT`. */
  readonly address: string;
  readonly port: number;
  /** The requests as `METHOD /path?query`, in order. */
  readonly requests: readonly string[];
}

/** Serves until the test ends. Other paths get a 404 response, as from an older server. */
export async function startAdmin(script: AdminScript): Promise<ScriptedAdmin> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method ?? ""} ${request.url ?? ""}`);
    const reply = script[`${request.method ?? ""} ${(request.url ?? "").split("?")[0] ?? ""}`];
    if (typeof reply === "function") reply(request, response);
    else if (reply === undefined) response.writeHead(404).end("not found");
    else response.end(typeof reply === "string" ? reply : JSON.stringify(reply));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  // A TCP server that listens has such an address.
  const { port } = server.address() as AddressInfo;
  return { address: `127.0.0.1:${port}`, port, requests };
}
