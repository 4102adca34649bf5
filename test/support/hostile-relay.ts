/** A relay in front of a server. It can replace the responses by other bytes, like a hostile server. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { onTestFinished } from "vitest";
import type { Certificate } from "./certificates.ts";

/** The response of a hostile server: `beginning`, and then `piece` without end. */
export interface EndlessResponse {
  readonly beginning: string;
  /** Absent: nothing follows. */
  readonly piece?: string;
}

export interface HostileRelay {
  readonly port: number;
  /** Sends this in place of every response from now on; `undefined` relays responses again, on new connections. */
  become(reply: EndlessResponse | undefined): void;
  /** By connection that got such a response: the number of bytes that were written to it, and whether it is closed. */
  readonly flooded: readonly { readonly bytes: number; readonly isClosed: boolean }[];
}

/**
 * Listens on a free port of 127.0.0.1 until the test ends.
 *
 * @param target returns the port of the server
 * @param certificate with it, the relay speaks TLS to clients
 */
export async function startHostileRelay(target: () => number, certificate?: Certificate): Promise<HostileRelay> {
  let hostile: EndlessResponse | undefined;
  const flooded: Flood[] = [];
  const sockets = new Set<Socket>();
  const serve = (client: Socket): void => {
    const server = connect(target(), "127.0.0.1");
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
    }
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
    let flood: Flood | undefined;
    client.on("data", (chunk: Buffer) => {
      if (flood !== undefined) return;
      if (hostile === undefined) {
        server.write(chunk);
        return;
      }
      flood = new Flood(client, hostile);
      flooded.push(flood);
    });
    server.on("data", (chunk: Buffer) => {
      if (flood === undefined) client.write(chunk);
    });
  };
  const server =
    certificate === undefined
      ? createServer(serve)
      : createTlsServer({ cert: certificate.cert, key: certificate.key }, serve);
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    // A TCP server that listens has such an address.
    port: (server.address() as AddressInfo).port,
    become: (reply) => (hostile = reply),
    flooded,
  };
}

/** More than any bound; a service that keeps it all still ends its test. */
const maxFloodBytes = 268_435_456;

/** One connection to which bytes are written as long as it takes them. */
class Flood {
  bytes = 0;
  readonly #socket: Socket;

  constructor(socket: Socket, { beginning, piece }: EndlessResponse) {
    this.#socket = socket;
    this.#write(beginning);
    if (piece !== undefined) this.#repeat(piece.repeat(Math.ceil(65_536 / piece.length)));
  }

  get isClosed(): boolean {
    return this.#socket.destroyed;
  }

  #repeat(text: string): void {
    if (this.isClosed || this.bytes > maxFloodBytes) return;
    this.#write(text, () => setImmediate(() => this.#repeat(text)));
  }

  #write(text: string, written?: () => void): void {
    this.bytes += text.length;
    this.#socket.write(text, "latin1", written);
  }
}
