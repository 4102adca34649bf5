/** The owner of a connection that ignores it until `onHolding` is called misses none of what it holds. */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Http1Server } from "./http1/server.ts";
import { clientPreface, Flag, FrameType } from "./http2/frame.ts";
import { Http2Server } from "./http2/server/server.ts";
import { defaultHttp2Limits } from "./http2/server/server-limits.ts";
import { requestBlock } from "./http2/testing/raw-client.ts";
import { rawFrame } from "./http2/testing/raw-frame.ts";
import type { IncomingBody, ServerExchangeEvents } from "./ports.ts";

const ignoreBody = { onData: () => undefined, onEnd: () => undefined, onAborted: () => undefined };
const ignoreAll: ServerExchangeEvents = {
  onDrain: () => undefined,
  onBodyRejected: () => undefined,
  onClose: () => undefined,
};

interface PendingExchange {
  readonly body: IncomingBody | undefined;
  respond(status: number, fields: readonly string[], body: string): void;
}

interface Held {
  readonly heldBytes: number;
  readonly isInTrailers?: boolean;
  readonly openBlock?: number | undefined;
}

/** Receives requests, and leaves them pending. */
class Receiver {
  readonly #readsBodies: boolean;
  readonly pending: PendingExchange[] = [];
  /** Whether the owner looks at the connection, which it does until the connection holds nothing. */
  isWatched = false;

  constructor(readsBodies: boolean) {
    this.#readsBodies = readsBodies;
  }

  readonly readHead = <Head>(head: Head): Head => head;
  readonly onRequest = (exchange: PendingExchange): ServerExchangeEvents => {
    this.pending.push(exchange);
    if (this.#readsBodies) exchange.body?.read(ignoreBody);
    return ignoreAll;
  };
  readonly onRejected = (): void => undefined;
  readonly onTooLarge = (): void => undefined;
  readonly onHolding = (): void => {
    this.isWatched = true;
  };
  readonly onFault = (error: unknown): void => {
    throw error;
  };
}

/** A socket whose bytes the test sends. */
class TestSocket extends Duplex {
  override _read(): void {
    // Bytes are pushed.
  }

  override _write(_chunk: Buffer, _encoding: string, callback: () => void): void {
    callback();
  }

  destroySoon(): void {
    this.destroy();
  }
}

type Serve = (socket: Socket, receiver: Receiver) => Held;

const http1: Serve = (socket, receiver) => {
  const limits = { headBytes: 4_096, trailerBytes: 1_024, fields: 20, target: 1_024 };
  return new Http1Server({ limits, clock: new FakeClock() }).serve(socket, receiver);
};
const http2: Serve = (socket, receiver) =>
  new Http2Server({ limits: defaultHttp2Limits, clock: new FakeClock() }).serve(socket, receiver);

/** What a client sends, and where its lines or frames end. */
interface SentBytes {
  readonly sent: Buffer;
  readonly ends: readonly number[];
}

function bytesOf(parts: readonly Buffer[]): SentBytes {
  const ends: number[] = [];
  for (const { length } of parts) ends.push((ends.at(-1) ?? 0) + length);
  return { sent: Buffer.concat(parts), ends };
}

const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n";
const http1Bytes = fc
  .array(
    fc.constantFrom(
      "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
      `${chunked}x-a: b\r\n\r\n`,
      `${chunked}\r\n`,
    ),
    { minLength: 1, maxLength: 6 },
  )
  .map((requests) => bytesOf(requests.flatMap((request) => request.split(/(?<=\n)/)).map((line) => Buffer.from(line))));

const block = requestBlock("x-a", "b".repeat(50));
const framesOf = (id: number): fc.Arbitrary<readonly Buffer[]> =>
  fc.constantFrom(
    [rawFrame(FrameType.Headers, Flag.EndHeaders | Flag.EndStream, id, block)],
    [
      rawFrame(FrameType.Headers, 0, id),
      rawFrame(FrameType.Continuation, 0, id, block.subarray(0, 20)),
      rawFrame(FrameType.Continuation, Flag.EndHeaders, id, block.subarray(20)),
      rawFrame(FrameType.Data, 0, id, Buffer.alloc(300)),
      rawFrame(FrameType.Data, Flag.EndStream, id, Buffer.alloc(10)),
    ],
  );
const http2Bytes = fc
  .tuple(framesOf(1), framesOf(3), framesOf(5))
  .map((frames) => bytesOf([Buffer.from(clientPreface), rawFrame(FrameType.Settings, 0, 0), ...frames.flat()]));

/** The lengths of the reads, with what happens after each. */
const reads = fc.array(
  fc.record({
    /** 0: to the end of the line or frame. */
    bytes: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 60 })),
    then: fc.constantFrom("nothing", "read", "respond"),
  }),
  { minLength: 1, maxLength: 60 },
);

const protocols: readonly (readonly [string, Serve, fc.Arbitrary<SentBytes>])[] = [
  ["HTTP/1", http1, http1Bytes],
  ["HTTP/2", http2, http2Bytes],
];

test.each(protocols)("a connection of %s that holds bytes has reported it", async (_, serve, bytes) => {
  let held = 0;
  await fc.assert(
    fc.asyncProperty(bytes, fc.boolean(), reads, async ({ sent, ends }, readsBodies, steps) => {
      const socket = new TestSocket() as unknown as Socket & TestSocket;
      const receiver = new Receiver(readsBodies);
      const connection = serve(socket, receiver);
      const isHolding = (): boolean =>
        connection.heldBytes > 0 || connection.isInTrailers === true || connection.openBlock !== undefined;
      let at = 0;
      for (const step of steps) {
        const end = step.bytes === 0 ? (ends.find((each) => each > at) ?? sent.length) : at + step.bytes;
        if (at < sent.length) socket.push(Buffer.from(sent.subarray(at, end)));
        at = Math.min(end, sent.length);
        await turn();
        if (step.then === "read") receiver.pending.at(-1)?.body?.read(ignoreBody);
        if (step.then === "respond") receiver.pending.shift()?.respond(200, [], "");
        await turn();
        if (isHolding()) {
          held++;
          expect(receiver.isWatched).toBe(true);
        } else {
          receiver.isWatched = false;
        }
      }
      socket.destroy();
    }),
  );
  expect(held).toBeGreaterThan(100);
});
