/** A server of HTTP/1 for tests, and clients that send bytes. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { onTestFinished } from "vitest";
import type { ServerExchangeEvents } from "../../ports.ts";
import { recorded } from "../../testing/receivers.ts";
import { Http1Server } from "../server.ts";
import type { RejectedHead } from "../server-connection.ts";
import type { Http1Exchange } from "../server-exchange.ts";

/** What a test does with a request. */
export type Handler = (exchange: Http1Exchange) => void;

/** A client's side of a connection. */
export interface TestClient {
  readonly socket: Socket;
  /** All bytes received so far, in latin1. */
  readonly text: () => string;
  /** Resolves when the server has closed its side, or the connection. */
  readonly ended: Promise<void>;
}

/**
 * Starts a server whose clock stands still.
 *
 * @param listen returns what is done with the events of a request.
 */
export async function serve(handle: Handler, listen?: (exchange: Http1Exchange) => Partial<ServerExchangeEvents>) {
  const clock = new FakeClock();
  const http1 = new Http1Server({
    limits: { headBytes: 4_096, trailerBytes: 1_024, fields: 20, target: 1_024 },
    clock,
  });
  const rejected: RejectedHead[] = [];
  const faults: unknown[] = [];
  /** Whether each exchange was completed, in their order. */
  const completed: boolean[] = [];
  const receiver = {
    onRequest: (exchange: Http1Exchange): ServerExchangeEvents => {
      const events = listen?.(exchange) ?? {};
      handle(exchange);
      return recorded(events, completed);
    },
    onRejected: (head: RejectedHead) => rejected.push(head),
    onHolding: () => undefined,
    onFault: (error: unknown) => faults.push(error),
  };
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    http1.serve(socket, receiver);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    http1.close();
    server.close();
  });
  // A listening TCP server has an address with a port.
  const { port } = server.address() as AddressInfo;
  const open = (text = ""): TestClient => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    let received = "";
    const ended = new Promise<void>((resolve) => {
      socket.once("end", resolve).once("close", () => resolve());
    });
    socket.on("error", () => undefined).on("data", (bytes: Buffer) => (received += bytes.toString("latin1")));
    onTestFinished(() => void socket.destroy());
    socket.write(text, "latin1");
    return { socket, text: () => received, ended };
  };
  /** Advances the clock; the server reads its sockets between two seconds. */
  const advance = async (seconds: number): Promise<void> => {
    for (let passed = 0; passed < seconds; passed++) {
      clock.advance(1_000);
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  return { http1, receiver, open, advance, rejected, faults, completed, sockets };
}
