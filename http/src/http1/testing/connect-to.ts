/** A connection of HTTP/1 to a server that sends bytes as a test says. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import type {
  BodyReceiver,
  ClientExchange,
  ClientExchangeEvents,
  ClientFailure,
  ClientRequest,
  OutgoingBody,
  SwitchedStream,
} from "../../ports.ts";
import { Http1ClientConnection } from "../client-connection.ts";

/** The events of one exchange. */
export interface ReceivedResponse {
  readonly interim: readonly (readonly [number, readonly string[]])[];
  readonly status: number | undefined;
  readonly fields: readonly string[] | undefined;
  readonly body: string;
  readonly trailers: readonly string[] | undefined;
  readonly failure: ClientFailure | undefined;
  readonly switched: SwitchedStream | undefined;
}

/** A request that was sent. */
export interface SentRequest {
  readonly exchange: ClientExchange;
  readonly received: ReceivedResponse;
  /** Resolves at the end, the failure or the switch. */
  readonly over: Promise<undefined>;
}

/** A request for `/`. */
export const get: ClientRequest = {
  method: "GET",
  path: "/",
  fields: ["Host", "a"],
  body: undefined,
  upgrade: undefined,
};

/** A body of which a test sends the parts. */
export class TestBody implements OutgoingBody {
  isPaused = false;
  isCancelled = false;
  receiver: BodyReceiver | undefined;

  read(receiver: BodyReceiver): void {
    this.receiver = receiver;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  cancel(): void {
    this.isCancelled = true;
  }
}

/** Starts a server for one connection, and connects to it. */
export async function connectToServer() {
  const accepted = Promise.withResolvers<Socket>();
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => accepted.resolve(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A listening TCP server has an address with a port.
  const { port } = server.address() as AddressInfo;
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  await once(socket, "connect");
  const peer = await accepted.promise;
  let sent = "";
  peer.on("data", (bytes: Buffer) => (sent += bytes.toString("latin1"))).on("error", () => undefined);
  const state = { isClosed: false };
  const connection = new Http1ClientConnection(socket, {
    limits: { headBytes: 4_096, fields: 20, trailerBytes: 1_024 },
    onClosed: () => (state.isClosed = true),
  });
  onTestFinished(() => {
    socket.destroy();
    peer.destroy();
    server.close();
  });
  const send = (request: Partial<ClientRequest> = {}, idleTimeoutMs = 0, events: Partial<ClientExchangeEvents> = {}) =>
    sendRequest(connection, { ...get, ...request }, idleTimeoutMs, events);
  return { connection, peer, state, send, text: () => sent };
}

function sendRequest(
  connection: Http1ClientConnection,
  request: ClientRequest,
  idleTimeoutMs: number,
  events: Partial<ClientExchangeEvents>,
): SentRequest {
  const over = Promise.withResolvers<undefined>();
  const interim: [number, readonly string[]][] = [];
  const received: { -readonly [name in keyof ReceivedResponse]: ReceivedResponse[name] } = {
    ...{ interim, status: undefined, fields: undefined, body: "", trailers: undefined },
    ...{ failure: undefined, switched: undefined },
  };
  const exchange = connection.send(request, idleTimeoutMs, {
    onInterimHead: (status, fields) => interim.push([status, fields]),
    onHead(status, fields) {
      Object.assign(received, { status, fields });
      events.onHead?.(status, fields);
    },
    onData(bytes) {
      received.body += bytes.toString("latin1");
      events.onData?.(bytes);
    },
    onEnd(trailers) {
      received.trailers = trailers;
      over.resolve(undefined);
    },
    onFailure(failure) {
      received.failure = failure;
      over.resolve(undefined);
    },
    onSwitched(fields, switched) {
      Object.assign(received, { fields, switched });
      over.resolve(undefined);
    },
  });
  return { exchange, received, over: over.promise };
}
