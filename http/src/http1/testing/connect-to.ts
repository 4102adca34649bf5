/** A connection of HTTP/1 to a server that sends bytes as a test says. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import type { ClientExchangeEvents, ClientRequest } from "../../ports.ts";
import { readsOf } from "../../socket-reads.ts";
import { get, sendRecorded } from "../../testing/exchanges.ts";
import { Http1ClientConnection } from "../client-connection.ts";

/** Starts a server for one connection, and connects to it. */
export async function connectToServer() {
  const accepted = Promise.withResolvers<Socket>();
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => accepted.resolve(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A listening TCP server has an address with a port.
  const { port } = server.address() as AddressInfo;
  const onread = readsOf((bytes, isKept) => connection.receive(bytes, isKept), false);
  const socket = connect({ port, host: "127.0.0.1", noDelay: true, onread });
  await once(socket, "connect");
  const peer = await accepted.promise;
  let sent = "";
  peer.on("data", (bytes: Buffer) => (sent += bytes.toString("latin1"))).on("error", () => undefined);
  const state = { isClosed: false };
  const connection: Http1ClientConnection = new Http1ClientConnection(socket, {
    limits: { headBytes: 4_096, fields: 20, trailerBytes: 1_024 },
    onClosed: () => (state.isClosed = true),
  });
  onTestFinished(() => {
    socket.destroy();
    peer.destroy();
    server.close();
  });
  const send = (request: Partial<ClientRequest> = {}, idleTimeoutMs = 0, events: Partial<ClientExchangeEvents> = {}) =>
    sendRecorded((recorder) => connection.send({ ...get, ...request }, idleTimeoutMs, recorder), events);
  return { connection, peer, state, send, text: () => sent };
}
