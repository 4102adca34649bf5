import { Duplex } from "node:stream";
import type { Socket } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, test } from "vitest";
import { HeadCounts } from "./connection.ts";
import { Http1Pipeline } from "./http1-pipeline.ts";
import { createHttp1Server } from "./http1-server.ts";
import { defaultRequestRules } from "./request-head.ts";

/** A connection whose client takes nothing: what is written to it never leaves. */
class UnreadSocket extends Duplex {
  written = "";

  override _read(): void {
    // The test pushes what the client sends.
  }

  override _write(chunk: Buffer): void {
    this.written += chunk.toString("latin1");
  }
}

test("a connection whose client does not read the response to its invalid request is closed after 10 s", async () => {
  const clock = new FakeClock();
  const heads = new HeadCounts();
  const pipeline = new Http1Pipeline(heads);
  const connection = { sourceAddress: "127.0.0.1", peer: "a client", tls: undefined, heads, pipeline };
  const rejected: number[] = [];
  const server = createHttp1Server({
    connectionOf: () => connection,
    phase: () => "serving",
    upgradeProtocols: new Map(),
    onRequest: () => {
      throw new Error("the request is rejected");
    },
    onRejected: ({ fault }) => rejected.push(fault.status),
    rules: defaultRequestRules,
    clock,
    onParsed: () => undefined,
    onFault: (error) => {
      throw error;
    },
  });
  const socket = new UnreadSocket();
  socket.on("error", () => undefined);
  server.emit("connection", socket as unknown as Socket);
  socket.push("GET / HTTP/1.1\r\n\r\n");
  await expect.poll(() => socket.written).toMatch(/^HTTP\/1\.1 400 /);
  expect(rejected).toEqual([400]);
  clock.advance(9_999);
  expect(socket.destroyed).toBe(false);
  clock.advance(1);
  expect(socket.destroyed).toBe(true);
});
