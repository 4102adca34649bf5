import { once } from "node:events";
import { gzipSync } from "node:zlib";
import { connect as connectHttp2 } from "node:http2";
import { connect as connectTcp } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type ClientOptions,
  compressionAlgorithms,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { afterEach, describe, expect, test } from "vitest";
import type { RateLimitRequest, RateLimitResponse } from "../../model/rate-limit.ts";
import { RateLimitError } from "../../service.ts";
import { healthServiceNames, ServingStatus } from "../serving-status.ts";
import { GrpcServer, type GrpcServerOptions } from "@gatewayproxy/grpc/server/grpc-server";
import { healthMethods } from "@gatewayproxy/grpc/server/health-service";
import { frameMessage } from "@gatewayproxy/grpc/message-framing";
import type { GrpcMethod } from "@gatewayproxy/grpc/server/method";
import { encodeRateLimitResponse } from "./rate-limit-codec.ts";
import { rateLimitMethod } from "./rate-limit-method.ts";
import { HealthClient, RateLimitClient } from "./testing/grpc-clients.ts";
import { rawCall, shouldRateLimitPath as path } from "./testing/raw-call.ts";
import { GrpcError } from "@gatewayproxy/grpc/status";

const closers: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Started {
  readonly server: GrpcServer;
  readonly port: number;
  readonly errors: unknown[];
}

async function start(
  methods: Iterable<readonly [string, GrpcMethod]>,
  options: Partial<GrpcServerOptions> = {},
): Promise<Started> {
  const errors: unknown[] = [];
  const server = new GrpcServer({
    methods: new Map(methods),
    clock: systemClock,
    random: () => 0.5,
    onError: (error) => errors.push(error),
    onClientError: () => undefined,
    ...options,
  });
  closers.push(() => server.close(0));
  return { server, errors, port: Number(await server.listen({ kind: "tcp", host: "127.0.0.1", port: 0 })) };
}

/** Starts a server that responds to every message with the result of `call`. */
const serve = (call: (message: Buffer) => Uint8Array | Promise<Uint8Array>, options: Partial<GrpcServerOptions> = {}) =>
  start([[path, { kind: "unary", call }]], options);

const serveRequests = (
  response: (request: RateLimitRequest) => RateLimitResponse | Promise<RateLimitResponse>,
  options: Partial<GrpcServerOptions> = {},
) => start([rateLimitMethod({ shouldRateLimit: response })], options);

function client(port: number, options: ClientOptions = {}) {
  const made = new RateLimitClient(`127.0.0.1:${port}`, credentials.createInsecure(), options);
  closers.push(() => made.close());
  return made;
}

/** Resolves with the response in grpc-js, or its error. */
function ask(asked: ReturnType<typeof client>, request: object, options: object = {}) {
  return new Promise<{ readonly response?: object; readonly error?: ServiceError }>((resolve) => {
    asked.shouldRateLimit(request, new Metadata(), options, (error, response) => {
      resolve(error === null ? { ...(response === undefined ? {} : { response }) } : { error });
    });
  });
}

const okResponse: RateLimitResponse = { overallCode: "OK", statuses: [], responseHeaders: [] };

describe("a unary call", () => {
  test("reaches the service with its request and the client with its response", async () => {
    const requests: RateLimitRequest[] = [];
    const { port } = await serveRequests((request) => {
      requests.push(request);
      const status = { code: "OVER_LIMIT", limitRemaining: 0, durationUntilResetSeconds: 58 } as const;
      const currentLimit = { requestsPerUnit: 10, unit: "MINUTE" } as const;
      return {
        overallCode: "OVER_LIMIT",
        statuses: [{ ...status, currentLimit }],
        responseHeaders: [{ key: "x-ratelimit-limit", value: "10, 10;w=60" }],
      };
    });
    const descriptors = [{ entries: [{ key: "ip", value: "::1" }], hitsAddend: { value: 3 } }];

    expect(await ask(client(port), { domain: "rl", descriptors })).toMatchObject({
      response: {
        overallCode: "OVER_LIMIT",
        statuses: [{ currentLimit: { requestsPerUnit: 10, unit: "MINUTE" }, durationUntilReset: { seconds: "58" } }],
        responseHeadersToAdd: [{ key: "x-ratelimit-limit", value: "10, 10;w=60" }],
      },
    });
    expect(requests).toEqual([
      { domain: "rl", hitsAddend: 0, descriptors: [{ entries: [{ key: "ip", value: "::1" }], hitsAddend: 3 }] },
    ]);
  });

  test("may be responded to later, and others meanwhile", async () => {
    const gate = Promise.withResolvers<RateLimitResponse>();
    const { port } = await serveRequests((request) => (request.domain === "slow" ? gate.promise : okResponse));
    const asked = client(port);
    const slow = ask(asked, { domain: "slow" });
    await ask(asked, { domain: "fast" });
    gate.resolve({ ...okResponse, overallCode: "OVER_LIMIT" });

    expect(await slow).toMatchObject({ response: { overallCode: "OVER_LIMIT" } });
  });

  test("comes through a thousand at a time", async () => {
    const { port } = await serveRequests(async (request) => {
      await sleep(1);
      return { ...okResponse, rawBody: Buffer.from(request.domain) };
    });
    const asked = client(port);
    const calls = Array.from({ length: 1_000 }, (_, index) => ask(asked, { domain: `d${index}` }));

    const bodies = (await Promise.all(calls)).map(({ response }) =>
      (response as { rawBody: Buffer }).rawBody.toString(),
    );
    expect(bodies).toEqual(Array.from({ length: 1_000 }, (_, index) => `d${index}`));
  });

  test.each([1_000, 70_000, 262_144, 4_000_000])(
    "takes a message of %i bytes, if it may be so long, and returns one",
    async (bytes) => {
      const options = bytes > 262_144 ? { maxMessageBytes: bytes } : {};
      const echo = (rawBody: Buffer) => encodeRateLimitResponse({ ...okResponse, rawBody: Buffer.from(rawBody) });
      const { port } = await serve(echo, options);
      const limits = { "grpc.max_receive_message_length": -1 };
      // The field's tag and length are part of the message.
      const { response } = await ask(client(port, limits), { domain: "a".repeat(bytes - 5) });

      expect((response as { rawBody: Buffer }).rawBody.length).toBeGreaterThan(bytes - 5);
    },
  );

  test.each([
    ["gzip", compressionAlgorithms.gzip],
    ["deflate", compressionAlgorithms.deflate],
  ])("may be compressed with %s", async (_, algorithm) => {
    const domains: string[] = [];
    const { port } = await serveRequests((request) => {
      domains.push(request.domain);
      return okResponse;
    });
    const compressing = { "grpc.default_compression_algorithm": algorithm, "grpc.default_compression_level": 2 };
    await ask(client(port, compressing), { domain: "squeezed" });

    expect(domains).toEqual(["squeezed"]);
  });

  test.each([
    ["EmptyDomain", status.UNKNOWN],
    ["StoreUnavailable", status.UNKNOWN],
    ["InvalidArgument", status.INVALID_ARGUMENT],
  ] as const)("fails with %s as the reference does", async (code, expected) => {
    const { port } = await serveRequests(() => {
      throw new RateLimitError(code, "bad: 100 % of ünits\n");
    });
    const { error } = await ask(client(port), { domain: "" });

    expect(error).toMatchObject({ code: expected, details: "bad: 100 % of ünits\n" });
  });

  test("fails the same when the service fails later", async () => {
    const { port } = await serveRequests(() =>
      Promise.reject(new RateLimitError("StoreUnavailable", "connection refused")),
    );

    expect((await ask(client(port), {})).error).toMatchObject({ code: status.UNKNOWN, details: "connection refused" });
  });

  test("hides an internal error, and reports it", async () => {
    const { port, errors } = await serveRequests(() => {
      throw new TypeError("password is hunter2");
    });

    expect((await ask(client(port), {})).error).toMatchObject({ code: status.INTERNAL, details: "internal error" });
    expect(errors).toEqual([new TypeError("password is hunter2")]);
  });

  test("ends with DEADLINE_EXCEEDED after its deadline, and its late response is discarded", async () => {
    const gate = Promise.withResolvers<Uint8Array>();
    const { port } = await serve(() => gate.promise);
    const response = await rawCall(port, frameMessage(Buffer.alloc(0)), { "grpc-timeout": "30m" });
    gate.resolve(Buffer.alloc(0));

    expect(response).toMatchObject({ "grpc-status": String(status.DEADLINE_EXCEEDED) });
  });

  test("is rejected when too many are at work", async () => {
    const gate = Promise.withResolvers<Uint8Array>();
    const { port } = await serve(() => gate.promise, { maxCalls: 2 });
    const asked = client(port);
    const first = [ask(asked, {}), ask(asked, {})];
    const { error } = await ask(asked, {});
    gate.resolve(Buffer.alloc(0));

    expect(error).toMatchObject({ code: status.UNAVAILABLE, details: "too many calls are in progress" });
    expect((await Promise.all(first)).every((outcome) => outcome.error === undefined)).toBe(true);
  });
});

describe("a call that is wrong", () => {
  const empty = frameMessage(Buffer.alloc(0));
  const withFlag = (flag: number) => Buffer.concat([Buffer.from([flag, 0, 0, 0, 1]), Buffer.from("x")]);

  test.each([
    ["an unknown method", empty, { ":path": "/a.B/C" }, status.UNIMPLEMENTED, "unknown method /a.B/C"],
    ["an unknown compression", empty, { "grpc-encoding": "br" }, status.UNIMPLEMENTED, "grpc-encoding br is not"],
    ["a timeout without unit", empty, { "grpc-timeout": "100" }, status.INTERNAL, "grpc-timeout 100 is not"],
    ["no message", Buffer.alloc(0), {}, status.INTERNAL, "before its message was complete"],
    ["half a message", Buffer.from([0, 0, 0, 0, 9, 1]), {}, status.INTERNAL, "before its message was complete"],
    ["two messages", Buffer.concat([empty, empty]), {}, status.INTERNAL, "sent more"],
    ["a compressed message without encoding", withFlag(1), {}, status.INTERNAL, "no grpc-encoding"],
    ["a compressed flag of 2", withFlag(2), {}, status.INTERNAL, "compressed flag 2"],
    ["a message that is not gzip", withFlag(1), { "grpc-encoding": "gzip" }, status.INTERNAL, "is not gzip"],
    ["a message beyond the bound", Buffer.from([0, 0, 4, 0, 1]), {}, status.RESOURCE_EXHAUSTED, "262145 bytes"],
    ["a message that is no protobuf", frameMessage(Buffer.from("garbage")), {}, status.INTERNAL, "RateLimitRequest"],
  ])("gets the reason: %s", async (_, body, fields, code, message) => {
    const { port } = await serveRequests(() => okResponse);
    const response = await rawCall(port, body, fields);

    expect(response).toMatchObject({ ":status": 200, "content-type": "application/grpc", "grpc-status": String(code) });
    expect(decodeURIComponent(String((response as Record<string, unknown>)["grpc-message"]))).toContain(message);
  });

  test("names the compressions that are accepted", async () => {
    const { port } = await serveRequests(() => okResponse);

    expect(await rawCall(port, empty, { "grpc-encoding": "br" })).toMatchObject({
      "grpc-accept-encoding": "identity,gzip,deflate",
    });
  });

  test("that decompresses beyond the bound is rejected before it does", async () => {
    const { port } = await serve((message) => message, { maxMessageBytes: 100_000 });
    const bomb = frameMessage(gzipSync(Buffer.alloc(50_000_000)));
    bomb[0] = 1;

    expect(await rawCall(port, bomb, { "grpc-encoding": "gzip" })).toMatchObject({
      "grpc-status": String(status.RESOURCE_EXHAUSTED),
    });
  });

  test("of another protocol gets a response in HTTP", async () => {
    const { port } = await serveRequests(() => okResponse);

    expect(await rawCall(port, empty, { "content-type": "application/json" })).toMatchObject({ ":status": 415 });
    expect(await rawCall(port, undefined, { ":method": "GET" })).toMatchObject({ ":status": 405, allow: "POST" });
  });

  test("cannot hold more of incomplete messages than allowed, and harms no complete one", async () => {
    const { port } = await serveRequests(() => okResponse, { maxPartialBytes: 10_000 });
    const half = Buffer.concat([Buffer.from([0, 0, 0, 0x40, 0]), Buffer.alloc(15_000)]);
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    closers.push(() => session.destroy());
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
    stream.on("error", () => undefined);
    stream.write(half);
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];

    expect(headers).toMatchObject({ "grpc-status": String(status.RESOURCE_EXHAUSTED) });
    expect((await ask(client(port), {})).error).toBeUndefined();
  });
});

describe("a call that is large", () => {
  /** A RateLimitRequest with one descriptor so many times, and its gzip with the prefix. */
  const manyDescriptors = (count: number) => {
    const entry = [0x0a, 14, ...Buffer.from("remote_address"), 0x12, 1, 0x31];
    const descriptor = Buffer.from([0x12, entry.length + 2, 0x0a, entry.length, ...entry]);
    return Buffer.concat([Buffer.from([0x0a, 1, 0x64]), Buffer.alloc(descriptor.length * count, descriptor)]);
  };
  const zipped = (message: Buffer) => {
    const framed = frameMessage(gzipSync(message));
    framed[0] = 1;
    return framed;
  };

  test("is rejected before it reaches the service, compressed or not", async () => {
    let calls = 0;
    const { port } = await serveRequests(() => {
      calls++;
      return okResponse;
    });
    const gzip = { "grpc-encoding": "gzip" };
    const tooMany = { "grpc-status": String(status.INVALID_ARGUMENT) };
    const attack = zipped(manyDescriptors(180_000));

    expect(attack.length).toBeLessThan(20_000);
    expect(await rawCall(port, attack, gzip)).toMatchObject({ "grpc-status": String(status.RESOURCE_EXHAUSTED) });
    expect(await rawCall(port, zipped(manyDescriptors(257)), gzip)).toMatchObject(tooMany);
    const response = await rawCall(port, frameMessage(manyDescriptors(257)));
    expect(response).toMatchObject(tooMany);
    expect(decodeURIComponent(String((response as Record<string, unknown>)["grpc-message"]))).toBe(
      "the call has more than 256 descriptors",
    );
    expect(calls).toBe(0);
    expect(await rawCall(port, zipped(manyDescriptors(256)), gzip)).toMatchObject({ "grpc-status": "0" });
    expect(calls).toBe(1);
  });

  test("has a turn of the event loop for itself if it is compressed", async () => {
    let turn = 0;
    let isOver = false;
    const count = (): void => {
      turn++;
      if (!isOver) setImmediate(count);
    };
    const turns: number[] = [];
    const { port } = await serve(() => {
      turns.push(turn);
      return Buffer.alloc(0);
    });
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    closers.push(() => session.destroy());
    const ended: Promise<unknown>[] = [];
    count();
    for (let i = 0; i < 30; i++) {
      const fields = { ":method": "POST", ":path": path, "content-type": "application/grpc", "grpc-encoding": "gzip" };
      const stream = session.request(fields).resume();
      ended.push(once(stream, "close"));
      stream.end(zipped(manyDescriptors(250)));
    }
    await Promise.all(ended);
    isOver = true;

    expect(turns).toHaveLength(30);
    expect(new Set(turns).size).toBe(30);
  });

  test("gets a response once if it ends while it waits for its turn", async () => {
    const { port, errors } = await serveRequests(() => okResponse);
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    closers.push(() => session.destroy());
    const ended: Promise<unknown>[] = [];
    for (let i = 0; i < 30; i++) {
      const fields = { ":method": "POST", ":path": path, "content-type": "application/grpc", "grpc-encoding": "gzip" };
      const stream = session.request(fields).resume();
      stream.on("error", () => undefined);
      ended.push(new Promise((resolve) => stream.once("close", resolve)));
      stream.end(zipped(manyDescriptors(250)));
      if (i % 2 === 0) stream.close(8);
    }
    await Promise.all(ended);

    expect((await ask(client(port), {})).error).toBeUndefined();
    expect(errors).toEqual([]);
  });

  test("is charged while a complete message waits for the end of its call", async () => {
    const { port } = await serveRequests(() => okResponse, { maxPartialBytes: 10_000 });
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    closers.push(() => session.destroy());
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
    stream.on("error", () => undefined);
    stream.write(frameMessage(Buffer.alloc(15_000)));
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];

    expect(headers).toMatchObject({ "grpc-status": String(status.RESOURCE_EXHAUSTED) });
    expect((await ask(client(port), {})).error).toBeUndefined();
  });
});

describe("health", () => {
  function healthClient(port: number) {
    const made = new HealthClient(`127.0.0.1:${port}`, credentials.createInsecure());
    closers.push(() => made.close());
    return made;
  }

  const check = (port: number, service: string) =>
    new Promise<unknown>((resolve) => {
      healthClient(port).check({ service }, (error, response) => resolve(error?.code ?? response?.status));
    });

  test.each([
    ["ratelimit", true, "SERVING"],
    ["", true, "SERVING"],
    ["ratelimit", false, "NOT_SERVING"],
    ["", false, "NOT_SERVING"],
    ["other", true, status.NOT_FOUND],
  ])("of %j with serving %s is %s", async (service, isServing, expected) => {
    const { port } = await start(healthMethods(new ServingStatus(isServing), healthServiceNames));

    expect(await check(port, service)).toBe(expected);
  });

  test.each([
    [true, "SERVING"],
    [false, "NOT_SERVING"],
  ])("of all services is listed, with serving %s", async (isServing, expected) => {
    const { port } = await start(healthMethods(new ServingStatus(isServing), healthServiceNames));
    const response = await new Promise((resolve) => healthClient(port).list({}, (_, listed) => resolve(listed)));

    expect(response).toEqual({ statuses: { "": { status: expected }, ratelimit: { status: expected } } });
  });

  test("is watched: the state at once, then each change", async () => {
    const serving = new ServingStatus(true);
    const { port } = await start(healthMethods(serving, healthServiceNames));
    const call = healthClient(port).watch({ service: "ratelimit" });
    const seen: unknown[] = [];
    call.on("data", (response: { status: string }) => seen.push(response.status));
    call.on("error", () => undefined);
    await once(call, "data");
    serving.set(false);
    await once(call, "data");
    serving.set(true);
    await once(call, "data");
    call.cancel();

    expect(seen).toEqual(["SERVING", "NOT_SERVING", "SERVING"]);
  });

  test("of an unknown service is watched too, in case it comes", async () => {
    const { port } = await start(healthMethods(new ServingStatus(true), healthServiceNames));
    const call = healthClient(port).watch({ service: "other" });
    call.on("error", () => undefined);
    const [response] = (await once(call, "data")) as [{ status: string }];
    call.cancel();

    expect(response.status).toBe("SERVICE_UNKNOWN");
  });
});

describe("the server", () => {
  test("listens on a unix socket", async () => {
    const directory = mkdtempSync(join(tmpdir(), "rls-"));
    closers.push(() => rmSync(directory, { recursive: true }));
    const { server } = await serveRequests(() => okResponse);
    const socket = join(directory, "grpc.sock");
    const other = new GrpcServer({
      methods: new Map([rateLimitMethod({ shouldRateLimit: () => okResponse })]),
      clock: systemClock,
      random: () => 0,
      onError: () => undefined,
      onClientError: () => undefined,
    });
    closers.push(() => other.close(0));
    await other.listen({ kind: "unix", path: socket });
    const made = new RateLimitClient(`unix:${socket}`, credentials.createInsecure());
    closers.push(() => made.close());

    expect((await ask(made, {})).error).toBeUndefined();
    expect(server.connections).toBe(0);
  });

  test("takes connections up to a bound; beyond it the address with the most gives one up", async () => {
    const { server, port } = await serveRequests(() => okResponse, { maxConnections: 4 });
    const open = async (localAddress: string) => {
      const socket = connectTcp({ host: "127.0.0.1", port, localAddress });
      closers.push(() => void socket.destroy());
      const closed = new Promise<"closed">((resolve) => socket.on("close", () => resolve("closed")));
      socket.on("error", () => undefined).resume();
      await once(socket, "connect");
      return { closed };
    };
    const many = [];
    for (let count = 0; count < 4; count++) many.push(await open("127.0.0.2"));
    await expect.poll(() => server.connections).toBe(4);
    const rejected = await open("127.0.0.2");
    expect(await rejected.closed).toBe("closed");
    const [second, third] = [await open("127.0.0.3"), await open("127.0.0.4")];
    expect(await Promise.all(many.slice(2).map(({ closed }) => closed))).toEqual(["closed", "closed"]);
    // Who would have as many as the others then, or more, is rejected.
    expect(await (await open("127.0.0.3")).closed).toBe("closed");
    expect((await ask(client(port, { "grpc.use_local_subchannel_pool": 1 }), {})).error).toBeUndefined();
    expect(await many[1]?.closed).toBe("closed");
    const first = await Promise.race([many[0]?.closed, second.closed, third.closed, Promise.resolve("open")]);

    expect(first).toBe("open");
    expect(server.connections).toBe(4);
  });

  test("rejects when its port is taken", async () => {
    const { port } = await serveRequests(() => okResponse);
    const second = new GrpcServer({
      methods: new Map(),
      clock: systemClock,
      random: () => 0,
      onError: () => undefined,
      onClientError: () => undefined,
    });
    closers.push(() => second.close(0));

    await expect(second.listen({ kind: "tcp", host: "127.0.0.1", port })).rejects.toThrow("EADDRINUSE");
  });

  test("closes when its calls are done, and asks streams to end", async () => {
    const gate = Promise.withResolvers<Uint8Array>();
    const { port, server } = await start([
      [path, { kind: "unary", call: () => gate.promise }],
      ...healthMethods(new ServingStatus(true), healthServiceNames),
    ]);
    const asked = client(port);
    const open = ask(asked, {});
    const watching = new HealthClient(`127.0.0.1:${port}`, credentials.createInsecure());
    closers.push(() => watching.close());
    const watch = watching.watch({ service: "" });
    const ended = once(watch, "error");
    await once(watch, "data");
    const closed = server.close(10_000);

    expect((await ended)[0]).toMatchObject({ code: status.UNAVAILABLE });
    gate.resolve(Buffer.alloc(0));
    expect((await open).error).toBeUndefined();
    await closed;
  });

  test("cuts off what is not done within the grace", async () => {
    const { port, server } = await serve(() => new Promise(() => undefined));
    const open = ask(client(port), {});
    await expect.poll(() => server.connections).toBe(1);
    await server.close(50);

    expect((await open).error?.code).toBe(status.UNAVAILABLE);
  });

  test("asks clients to reconnect at their age, which no call notices", async () => {
    const { port } = await serveRequests(() => okResponse, { maxConnectionAgeMs: 100, maxConnectionAgeGraceMs: 1_000 });
    const asked = client(port);
    const outcomes: unknown[] = [];
    const untilMs = Date.now() + 2_500;
    while (Date.now() < untilMs) outcomes.push((await ask(asked, {})).error);

    expect(outcomes.filter((error) => error !== undefined)).toEqual([]);
  });

  test("throws a method's GrpcError as its status", async () => {
    const { port } = await serve(() => {
      throw new GrpcError(8, "no room");
    });

    expect((await ask(client(port), {})).error).toMatchObject({ code: 8, details: "no room" });
  });
});
