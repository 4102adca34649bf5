/** An admin server of scripted answers on a loopback port, for what no healthy proxy would answer. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createMute } from "node:net";
import { onTestFinished } from "vitest";

/** Accepts connections and never says a word; resolves with its `127.0.0.1:PORT`. */
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

/** By `METHOD /path`, without the query; a string is a body of status 200, a function answers itself. */
export type AdminScript = Readonly<
  Record<string, string | object | ((request: IncomingMessage, response: ServerResponse) => void)>
>;

export interface ScriptedAdmin {
  /** `127.0.0.1:PORT` */
  readonly address: string;
  readonly port: number;
  /** `METHOD /path?query`, as they came. */
  readonly requests: readonly string[];
}

/** Serves until the test ends; what the script does not name is answered as an older server would. */
export async function startAdmin(script: AdminScript): Promise<ScriptedAdmin> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method ?? ""} ${request.url ?? ""}`);
    const answer = script[`${request.method ?? ""} ${(request.url ?? "").split("?")[0] ?? ""}`];
    if (typeof answer === "function") answer(request, response);
    else if (answer === undefined) response.writeHead(404).end("not found");
    else response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
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
