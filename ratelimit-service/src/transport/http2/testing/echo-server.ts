/**
 * A server that answers each request with its body, or with `nothing`, once it is complete: the connection's behaviour
 * with nothing on top.
 */
import { type AddressInfo, createServer, type Server } from "node:net";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { ServerConnection } from "../connection.ts";
import { ErrorCode } from "@gatewayproxy/runtime/http2/frame";
import { encodeHeaderBlock } from "@gatewayproxy/runtime/http2/hpack-encoder";
import { defaultHttp2Limits, type Http2Limits } from "../limits.ts";
import type { RequestHead } from "../request-head.ts";
import type { RequestHandler } from "../request-streams.ts";
import { defaultMaxConnectionMemory } from "../../connection-bounds.ts";
import { ConnectionMemory } from "../connection-memory.ts";

const okHeaders = encodeHeaderBlock([":status", "200", "content-type", "text/plain"]);
const trailers = encodeHeaderBlock(["x-end", "yes"]);

export class EchoServer {
  /** Heads in the order in which they came. */
  readonly heads: RequestHead[] = [];
  /** Why connections were given up. */
  readonly faults: unknown[] = [];
  readonly connections = new Set<ServerConnection<RequestHead>>();
  /** Answers that were held back with `hold`, to be sent when called. */
  readonly held: (() => void)[] = [];
  /** Keeps answers back in `held`. */
  hold = false;
  /** Keeps answers back for a while, so that requests pile up. */
  answerDelayMs = 0;
  readonly memory: ConnectionMemory;
  readonly #server: Server;

  /** @param maxConnectionMemory of all connections together */
  constructor(limits: Partial<Http2Limits> = {}, maxConnectionMemory = defaultMaxConnectionMemory) {
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
        onFault: (error) => this.faults.push(error),
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
            const answer = () => stream.respond(okHeaders, body.length === 0 ? Buffer.from("nothing") : body, trailers);
            if (this.hold) this.held.push(answer);
            else if (this.answerDelayMs > 0) systemClock.setTimer(this.answerDelayMs, answer);
            else answer();
          },
          cancel: () => {
            if (!this.hold) stream.reset(ErrorCode.Cancel);
          },
        };
      },
    };
  }
}
