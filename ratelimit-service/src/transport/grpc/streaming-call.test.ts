import { gzipSync } from "node:zlib";
import { status } from "@grpc/grpc-js";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { afterEach, describe, expect, test } from "vitest";
import { GrpcServer, type GrpcServerOptions } from "@gatewayproxy/grpc/server/grpc-server";
import type { GrpcMethod } from "@gatewayproxy/grpc/server/method";
import { rawCall, shouldRateLimitPath } from "./testing/raw-call.ts";

const closers: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** A server with one method. */
async function start(method: GrpcMethod, options: Partial<GrpcServerOptions> = {}) {
  const errors: unknown[] = [];
  const server = new GrpcServer({
    methods: new Map([[shouldRateLimitPath, method]]),
    clock: systemClock,
    random: () => 0.5,
    onError: (error) => errors.push(error),
    onClientError: () => undefined,
    ...options,
  });
  closers.push(() => server.close(0));
  return { errors, port: Number(await server.listen({ kind: "tcp", host: "127.0.0.1", port: 0 })) };
}

test("a streaming call whose messages are far ahead of its responses ends, and they are not made", async () => {
  let messages = 0;
  const method: GrpcMethod = {
    kind: "streaming",
    open: (sink) => ({
      message: () => {
        messages++;
        sink.send(Buffer.alloc(50_000));
      },
      ended: () => sink.end(),
      cancelled: () => undefined,
    }),
  };
  const { port } = await start(method);
  const response = await rawCall(port, Buffer.alloc(5 * 1_000));

  expect(response).toMatchObject({ "grpc-status": String(status.RESOURCE_EXHAUSTED) });
  expect(messages).toBeLessThan(50);
});

describe("messages of a streaming call", () => {
  /** A method that notes the turn of the event loop in which each message is read. */
  function noting() {
    let turn = 0;
    const turns: number[] = [];
    let immediate = setImmediate(function next() {
      turn++;
      immediate = setImmediate(next);
    });
    closers.push(() => clearImmediate(immediate));
    const method: GrpcMethod = {
      kind: "streaming",
      open: (sink) => ({
        message: () => void turns.push(turn),
        ended: () => sink.end(),
        cancelled: () => undefined,
      }),
    };
    return { method, turns };
  }
  const compressed = gzipSync(Buffer.alloc(16_000));
  const framed = Buffer.concat([Buffer.from([1, 0, 0, 0, compressed.length]), compressed]);

  test.each([
    ["compressed", framed, { "grpc-encoding": "gzip" }],
    ["small", Buffer.alloc(5), {}],
  ] as const)("that are %s and come together are read in turns, and the call ends after the last", async (...given) => {
    const [, message, fields] = given;
    const { method, turns } = noting();
    const { port, errors } = await start(method);
    const body = Buffer.concat(Array<Buffer>(50).fill(message));

    expect(await rawCall(port, body, fields)).toMatchObject({ "grpc-status": "0" });
    expect(turns).toHaveLength(50);
    expect(new Set(turns).size).toBe(50);
    expect(errors).toEqual([]);
  });

  test("that wait are bounded, and charged until they are read or the call ends", async () => {
    const { method } = noting();
    const { port } = await start(method, { maxPartialBytes: 20_000 });
    const many = Buffer.concat(Array<Buffer>(100).fill(framed));
    const few = Buffer.concat(Array<Buffer>(10).fill(framed));
    const fields = { "grpc-encoding": "gzip" };
    for (let times = 0; times < 3; times++) {
      expect(await rawCall(port, many, fields)).toMatchObject({ "grpc-status": String(status.RESOURCE_EXHAUSTED) });
      expect(await rawCall(port, few, fields)).toMatchObject({ "grpc-status": "0" });
    }
  });

  test("with a fault fail the call, whatever waits behind", async () => {
    const { method, turns } = noting();
    const { port } = await start(method);
    const broken = Buffer.from([1, 0, 0, 0, 3, 9, 9, 9]);
    const outcome = await rawCall(port, Buffer.concat([framed, broken, framed]), { "grpc-encoding": "gzip" });

    expect(outcome).toMatchObject({ "grpc-status": String(status.INTERNAL) });
    expect(turns).toHaveLength(1);
  });
});
