/**
 * The receiver of a body may release the memory of exclusive bytes at once. A connection reads the rest of its messages
 * as if it had not, wherever reads begin and end.
 */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import fc from "fast-check";
import { expect, test } from "vitest";
import { releaseMemory } from "./exclusive-bytes.ts";
import { Http1ClientConnection } from "./http1/client-connection.ts";
import { Http1Server } from "./http1/server.ts";
import type { BodyReceiver, ServerExchange, ServerExchangeEvents } from "./ports.ts";
import { get, sendRecorded } from "./testing/exchanges.ts";

const limits = { headBytes: 4_096, trailerBytes: 1_024, fields: 20, target: 1_024 };

/** A socket that takes everything, and whose events a test emits. */
class TestSocket extends Duplex {
  override _read(): void {
    // The test emits "data".
  }

  override _write(_chunk: Buffer, _encoding: string, callback: () => void): void {
    callback();
  }

  setTimeout(): this {
    return this;
  }

  destroySoon(): void {
    this.destroy();
  }
}

/** A message: the lengths of the parts of its body, and how the body is framed. */
const message = fc.record({
  isChunked: fc.boolean(),
  // A buffer of 16 KiB or more is released.
  parts: fc.array(fc.constantFrom(1, 16_383, 16_384, 20_000, 65_536), { minLength: 1, maxLength: 4 }),
});
type Message = typeof message extends fc.Arbitrary<infer Value> ? Value : never;

const bodyLength = ({ parts }: Message): number => parts.reduce((sum, length) => sum + length, 0);

/** Returns the text of a message, in the pieces that reads may be made of. */
function piecesOf(start: string, sent: Message): readonly string[] {
  const bodies = sent.parts.map((length) => "x".repeat(length));
  if (!sent.isChunked) return [`${start}Content-Length: ${bodyLength(sent)}\r\n\r\n`, ...bodies];
  const chunks = bodies.flatMap((body) => [`${body.length.toString(16)}\r\n`, body, "\r\n"]);
  return [`${start}Transfer-Encoding: chunked\r\n\r\n`, ...chunks, "0\r\n\r\n"];
}

/** Joins some of the pieces. Each read has memory of its own, as those of Node.js have. */
function readsOf(pieces: readonly string[], joins: readonly boolean[]): readonly Buffer[] {
  const reads: string[] = [];
  for (const [index, piece] of pieces.entries()) {
    if (reads.length > 0 && joins[index % joins.length] === true) reads.push((reads.pop() ?? "") + piece);
    else reads.push(piece);
  }
  return reads.map((text) => {
    const bytes = Buffer.allocUnsafeSlow(text.length);
    bytes.write(text, "latin1");
    return bytes;
  });
}

const joins = fc.array(fc.boolean(), { minLength: 1, maxLength: 12 });

test("a server reads every request of a connection", async () => {
  let released = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 4 }), joins, async (messages, joined) => {
      const faults: unknown[] = [];
      const socket = new TestSocket() as unknown as Socket & TestSocket;
      const lengths: number[] = [];
      const read = (exchange: ServerExchange): BodyReceiver => {
        const at = lengths.push(0) - 1;
        return {
          onData(bytes, isExclusive = false) {
            lengths[at] = (lengths[at] ?? 0) + bytes.length;
            if (isExclusive) releaseMemory(bytes);
            if (bytes.length === 0) released++;
          },
          onEnd() {
            exchange.respond(200, [], "");
          },
          onAborted: () => expect.unreachable(),
        };
      };
      const ignored: ServerExchangeEvents = {
        onDrain: () => undefined,
        onBodyRejected: () => expect.unreachable(),
        onClose: () => undefined,
      };
      new Http1Server({ limits, clock: new FakeClock() }).serve(socket, {
        onRequest(exchange) {
          exchange.body?.read(read(exchange));
          return ignored;
        },
        onRejected: () => expect.unreachable(),
        onHolding: () => undefined,
        onFault: (error) => void faults.push(error),
      });
      const pieces = messages.flatMap((each) => piecesOf("POST / HTTP/1.1\r\nHost: a\r\n", each));
      for (const bytes of readsOf(pieces, joined)) {
        socket.emit("data", bytes);
        await turn();
      }
      expect(faults).toEqual([]);
      expect(lengths).toEqual(messages.map(bodyLength));
      socket.destroy();
    }),
  );
  expect(released).toBeGreaterThan(100);
});

test("a client reads every response of a connection", () => {
  let released = 0;
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 4 }), joins, (messages, joined) => {
      const socket = new TestSocket() as unknown as Socket & TestSocket;
      const connection = new Http1ClientConnection(socket, { limits, onClosed: () => expect.unreachable() });
      for (const each of messages) {
        const { received } = sendRecorded((events) => connection.send(get, 0, events), {
          onData(bytes, isExclusive = false) {
            if (isExclusive) releaseMemory(bytes);
            if (bytes.length === 0) released++;
          },
        });
        for (const bytes of readsOf(piecesOf("HTTP/1.1 200 OK\r\n", each), joined)) connection.receive(bytes, true);
        expect(received.body).toHaveLength(bodyLength(each));
        expect(received.trailers).toEqual([]);
      }
    }),
  );
  expect(released).toBeGreaterThan(100);
});
