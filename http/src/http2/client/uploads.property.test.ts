/**
 * Uploads of several clients on one connection, to a server that reads them in any order: what the server has read
 * completely arrives completely, and no window is exceeded.
 */
import { Duplex } from "node:stream";
import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { ClientExchange } from "../../ports.ts";
import { get, sendRecorded, TestBody } from "../../testing/exchanges.ts";
import { clientPreface, defaultWindowBytes, Flag, FrameReader, FrameType } from "../frame.ts";
import { rst, settings, windowUpdate } from "../testing/connect-client.ts";
import { upload } from "../testing/exchange-with-peer.ts";
import { defaultHttp2ClientLimits } from "./client-limits.ts";
import { Http2ClientConnection } from "./http2-client.ts";

/** An upload as the server has it. */
interface Received {
  bytes: number;
  /** Bytes for which the server has not opened the windows again. */
  unread: number;
  hasEnded: boolean;
  isReset: boolean;
}

/** The socket of a client, and the server behind it. */
class TestServer extends Duplex {
  readonly uploads = new Map<number, Received>();
  #preface = clientPreface.length;
  readonly #reader = new FrameReader((type, flags, id, _buffer, start, end) => {
    if (type === FrameType.Headers) this.uploads.set(id, { bytes: 0, unread: 0, hasEnded: false, isReset: false });
    const received = this.uploads.get(id);
    if (received === undefined) return;
    if (type === FrameType.RstStream) received.isReset = true;
    if (type !== FrameType.Data) return;
    received.bytes += end - start;
    received.unread += end - start;
    received.hasEnded ||= (flags & Flag.EndStream) !== 0;
    expect(received.unread).toBeLessThanOrEqual(defaultWindowBytes);
    expect(this.unread).toBeLessThanOrEqual(defaultWindowBytes);
  });

  get unread(): number {
    return this.uploads.values().reduce((sum, { unread }) => sum + unread, 0);
  }

  override _read(): void {
    // The test passes received bytes on.
  }

  override _write(chunk: Buffer, _encoding: string, callback: () => void): void {
    const start = Math.min(chunk.length, this.#preface);
    this.#preface -= start;
    if (start < chunk.length) this.#reader.read(chunk.subarray(start));
    callback();
  }

  setTimeout(): this {
    return this;
  }

  /** Returns the frames that open the windows for what the server reads. */
  readUpload(id: number, bytes: number): Buffer {
    const received = this.uploads.get(id);
    const read = Math.min(bytes, received?.unread ?? 0);
    if (received === undefined || read === 0) return Buffer.alloc(0);
    received.unread -= read;
    const frames = [windowUpdate(0, read)];
    // As many servers do, it opens no window of a stream that has ended.
    if (!received.hasEnded && !received.isReset) frames.push(windowUpdate(id, read));
    return Buffer.concat(frames);
  }
}

interface Sent {
  readonly body: TestBody;
  readonly exchange: ClientExchange;
  readonly id: number;
  bytes: number;
  state: "open" | "ended" | "aborted";
}

const at = fc.nat(20);
const begin = fc.record({ kind: fc.constant("begin" as const), client: fc.nat(2) });
const write = fc.record({ kind: fc.constant("write" as const), at, bytes: fc.integer({ min: 1, max: 100_000 }) });
const read = fc.record({ kind: fc.constant("read" as const), at, bytes: fc.integer({ min: 256, max: 70_000 }) });
const end = fc.record({ kind: fc.constantFrom("end" as const, "abort" as const, "reset" as const), at });
const step = fc.oneof(
  ...[
    { weight: 2, arbitrary: begin },
    { weight: 4, arbitrary: write },
    { weight: 3, arbitrary: read },
  ],
  ...[{ weight: 1, arbitrary: end }],
);

test("what clients upload at the same time arrives, whatever the server reads first", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 100 }), async (steps) => {
      const server = new TestServer();
      const client = new Http2ClientConnection(server as unknown as Socket, {
        limits: { ...defaultHttp2ClientLimits, maxWaitingBytes: Number.MAX_SAFE_INTEGER },
        clock: new FakeClock(),
        onOpen: () => undefined,
        onUnavailable: () => undefined,
        onClosed: () => undefined,
      });
      client.receive(settings());
      const sent: Sent[] = [];
      const pass = async (...frames: readonly Buffer[]): Promise<void> => {
        const bytes = Buffer.concat(frames);
        if (bytes.length > 0) client.receive(bytes);
        await turn();
      };
      for (const next of steps) {
        if (next.kind === "begin") {
          if (!client.isAvailable) continue;
          const body = new TestBody();
          const request = { ...get, ...upload(body), client: String(next.client) };
          const { exchange } = sendRecorded((recorder) =>
            client.send(request, 0, { ...recorder, onSent: () => undefined }),
          );
          sent.push({ body, exchange, id: 2 * sent.length + 1, bytes: 0, state: "open" });
          await pass();
          continue;
        }
        const one = sent[next.at % Math.max(1, sent.length)];
        if (one === undefined) continue;
        if (next.kind === "read") {
          await pass(server.readUpload(one.id, next.bytes));
        } else if (one.state === "open") {
          if (next.kind === "write") {
            one.body.receiver?.onData(Buffer.alloc(next.bytes), false);
            one.bytes += next.bytes;
          } else if (next.kind === "end") {
            one.body.receiver?.onEnd([]);
            one.state = "ended";
          } else {
            one.state = "aborted";
            if (next.kind === "abort") one.exchange.abort();
            else await pass(rst(one.id, 8));
          }
          await pass();
        }
      }
      for (let rounds = 0; rounds < 200 && server.unread > 0; rounds++) {
        for (const { id } of sent) await pass(server.readUpload(id, Number.POSITIVE_INFINITY));
      }
      const uploads = sent.filter(({ state }) => state !== "aborted");
      expect(uploads.map(({ id }) => server.uploads.get(id)?.bytes)).toEqual(uploads.map(({ bytes }) => bytes));
      expect(uploads.map(({ id }) => server.uploads.get(id)?.hasEnded)).toEqual(
        uploads.map(({ state }) => state === "ended"),
      );
      client.destroy();
    }),
  );
});
