/** A server of HTTP/2 exchanges for tests, and clients: node:http2, and raw frames. */
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { onTestFinished } from "vitest";
import type { ServerExchangeEvents } from "../../ports.ts";
import type { RequestHead } from "../server/request-head.ts";
import { Http2Server, type Http2ServerConnection } from "../server/server.ts";
import type { Http2Exchange } from "../server/server-exchange.ts";
import { defaultHttp2Limits, type Http2Limits } from "../server/server-limits.ts";
import { recorded } from "../../testing/receivers.ts";
import { RawClient } from "./raw-client.ts";

/** Handles a request in a test. */
export type ExchangeHandler = (exchange: Http2Exchange) => Partial<ServerExchangeEvents> | undefined;

/** Starts a server whose clock stands still. */
export async function serveExchanges(handle: ExchangeHandler, limits: Partial<Http2Limits> = {}) {
  const clock = new FakeClock();
  const server = new Http2Server({ limits: { ...defaultHttp2Limits, allowsConnect: true, ...limits }, clock });
  const heads: RequestHead[] = [];
  const faults: unknown[] = [];
  const tooLarge: (readonly string[])[] = [];
  /** Whether each exchange was completed, in the order of their ends. */
  const completed: boolean[] = [];
  const receiver = {
    readHead: (head: RequestHead) => head,
    onRequest: (exchange: Http2Exchange, head: RequestHead): ServerExchangeEvents => {
      heads.push(head);
      return recorded(handle(exchange) ?? {}, completed);
    },
    onHolding: () => undefined,
    onTooLarge: (_message: string, fields: readonly string[]) => tooLarge.push(fields),
    onFault: (error: unknown) => faults.push(error),
  };
  const connections: Http2ServerConnection[] = [];
  const sockets = new Set<Socket>();
  const listener = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    connections.push(server.serve(socket, receiver));
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
    listener.close();
  });
  // A listening TCP server has an address with a port.
  const { port } = listener.address() as AddressInfo;
  const openSession = (): ClientHttp2Session => {
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    session.on("error", () => undefined);
    onTestFinished(() => session.destroy());
    return session;
  };
  /** @param sendPreface false for a client of another protocol. */
  const openFrames = (sendPreface = true): RawClient => {
    const client = new RawClient(port, sendPreface);
    onTestFinished(() => void client.socket.destroy());
    return client;
  };
  /** Advances the clock; the server reads its sockets between two seconds. */
  const advance = async (seconds: number): Promise<void> => {
    for (let passed = 0; passed < seconds; passed++) {
      clock.advance(1_000);
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { server, openSession, openFrames, advance, heads, faults, tooLarge, completed, connections, sockets };
}
