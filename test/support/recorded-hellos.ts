/** The first bytes of real clients of TLS, to replay them over many connections. */
import { once } from "node:events";
import { type AddressInfo, connect as connectTcp, createServer } from "node:net";
import { connect, type ConnectionOptions, createServer as createTlsServer } from "node:tls";
import type { Certificate } from "./certificates.ts";

/** What a client sends with each flight of the server, up to its Finished. */
export interface RecordedHellos {
  readonly first: Buffer;
  /** With the second ClientHello; empty if the server did not ask for one. */
  readonly second: Buffer;
}

/**
 * The ClientHellos of a client of node:tls. A server with the defaults of Node.js asks for a second one if it has to.
 */
export async function recordHellos(
  { cert, key }: Pick<Certificate, "cert" | "key">,
  options: ConnectionOptions,
): Promise<RecordedHellos> {
  const server = createTlsServer({ cert, key }).listen(0, "127.0.0.1");
  server.on("tlsClientError", () => undefined);
  const flights: Buffer[] = [];
  const relay = createServer((client) => {
    const backend = connectTcp((server.address() as AddressInfo).port, "127.0.0.1");
    client.on("data", (chunk: Buffer) => void flights.push(chunk)).pipe(backend);
    backend.pipe(client);
    for (const socket of [client, backend]) socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  await Promise.all([once(server, "listening"), once(relay, "listening")]);
  const client = connect({ port: (relay.address() as AddressInfo).port, rejectUnauthorized: false, ...options });
  await once(client, "secureConnect");
  client.destroy();
  server.close();
  relay.close();
  const [first = Buffer.alloc(0), second = Buffer.alloc(0)] = flights;
  // Without a request for a second one, the next flight is the encrypted Finished, behind a record of one byte.
  return { first, second: second[second[0] === 20 ? 6 : 0] === 22 ? second : Buffer.alloc(0) };
}
