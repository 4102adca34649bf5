/** A server that responds to each complete request with its body, or with `nothing`: to test a connection alone. */
import { type AddressInfo, createServer, type Server } from "node:net";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { ServerConnection } from "../server/server-connection.ts";
import { ErrorCode } from "../frame.ts";
import { encodeHeaderBlock } from "../hpack/hpack-encoder.ts";
import { defaultHttp2Limits, type Http2Limits } from "../server/server-limits.ts";
import type { RequestHead } from "../server/request-head.ts";
import type { RequestHandler } from "../server/request-streams.ts";
import { ConnectionMemory } from "../server/connection-memory.ts";

const okHeaders = encodeHeaderBlock([":status", "200", "content-type", "text/plain"]);
const trailers = encodeHeaderBlock(["x-end", "yes"]);

export class EchoServer {
  /** Heads of the requests, in order. */
  readonly heads: RequestHead[] = [];
  /** Reasons why connections were closed. */
  readonly errors: unknown[] = [];
  readonly connections = new Set<ServerConnection<RequestHead>>();
  /** Responses that `hold` held back; a call sends one. */
  readonly held: (() => void)[] = [];
  /** Whether to hold responses back in `held`. */
  hold = false;
  /** Delay of responses, so that requests accumulate. */
  responseDelayMs = 0;
  readonly memory: ConnectionMemory;
  readonly #server: Server;

  /** @param maxConnectionMemory bound for all connections together */
  constructor(limits: Partial<Http2Limits> = {}, maxConnectionMemory = 67_108_864) {
    this.memory = new ConnectionMemory(maxConnectionMemory);
    this.#server = createServer((socket) => {
      const connection = new ServerConnection({
        socket,
        isTls: false,
        clock: systemClock,
        limits: { ...defaultHttp2Limits, ...limits },
        memory: this.memory,
        handler: this.#handler(),
        onClose: () => this.connections.delete(connection),
        onError: (error) => this.errors.push(error),
      });
      this.connections.add(connection);
    });
  }

  /** Resolves with the port. */
  listen(): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#server.listen(0, "127.0.0.1", () => resolve((this.#server.address() as AddressInfo).port));
    return promise;
  }

  close(): void {
    this.#server.close();
    for (const connection of this.connections) connection.destroy();
  }

  #handler(): RequestHandler<RequestHead> {
    return {
      readHead: (head) => head,
      open: (stream, head) => {
        this.heads.push(head);
        const chunks: Buffer[] = [];
        return {
          data: (chunk, isLast) => {
            chunks.push(Buffer.from(chunk));
            if (!isLast) return;
            const body = Buffer.concat(chunks);
            const response = () =>
              stream.respond(okHeaders, body.length === 0 ? Buffer.from("nothing") : body, trailers);
            if (this.hold) this.held.push(response);
            else if (this.responseDelayMs > 0) systemClock.setTimer(this.responseDelayMs, response);
            else response();
          },
          cancel: () => {
            if (!this.hold) stream.reset(ErrorCode.Cancel);
          },
        };
      },
    };
  }
}
