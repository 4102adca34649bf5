/**
 * Realtime sessions over WebSocket under a token limit: each response is charged, and a session is closed when a limit
 * has nothing left. With OpenAI's own client, and with frames in unusual forms.
 */
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { backendRef, gatewayManifest, manifests, routeManifest, startGateway } from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { type ReceivedCall, startScriptedService } from "../support/rate-limit-service.ts";
import {
  closeOf,
  createdEvent,
  doneEvent,
  llmManifest,
  openSession,
  realtime,
  remaining,
  respond,
  startRealtime,
  urlOf,
} from "../support/realtime.ts";
import { startUpgradeBackend, startWebSocketBackend } from "../support/upgrades.ts";

describe("a session", () => {
  test("is charged for each response, and has their sum in the log", async () => {
    const gateway = await startRealtime(await startWebSocketBackend(realtime));
    const client = await openSession(gateway);
    await respond(client, 30);
    expect(await remaining(gateway)).toBe(70);
    await respond(client, 20);
    expect(await remaining(gateway)).toBe(50);
    client.close();
    await once(client, "close");
    await waitFor(() => expect(gateway.records.some(({ usage }) => usage?.total === 50)).toBe(true));
    expect(gateway.records.find(({ usage }) => usage !== undefined)).toMatchObject({
      ...{ status: 101, reason: undefined, usage: { input: 46, output: 4, total: 50, model: "gpt-realtime" } },
    });
  });

  test("is closed with 1008 behind the response that uses the limit up", async () => {
    const gateway = await startRealtime(await startWebSocketBackend(realtime));
    const client = await openSession(gateway);
    const events: string[] = [];
    client.on("message", (data: Buffer) => void events.push((JSON.parse(String(data)) as { type: string }).type));
    await respond(client, 60);
    const closed = closeOf(client);
    await respond(client, 60);
    expect(await closed).toEqual([1008, "rate limit exceeded"]);
    expect(events.slice(-3)).toEqual(["response.created", "response.output_text.delta", "response.done"]);
    await waitFor(() => expect(gateway.records).toHaveLength(1));
    expect(gateway.records[0]).toMatchObject({ reason: "RateLimited", usage: { total: 120 } });
    const denied = new WebSocket(urlOf(gateway));
    denied.on("error", () => undefined);
    const [, response] = (await once(denied, "unexpected-response")) as [unknown, { statusCode: number }];
    expect(response.statusCode).toBe(429);
  });

  test("is not closed by a limit of requests, nor by one in mode Shadow", async () => {
    const backend = await startWebSocketBackend(realtime);
    const limits = "{ requests: 1, unit: Hours }\n        - { tokens: 10, unit: Hours, mode: Shadow }";
    const client = await openSession(await startRealtime(backend, limits));
    await respond(client, 50);
    await respond(client, 50);
    expect(client.readyState).toBe(WebSocket.OPEN);
    client.terminate();
  });

  test("of OpenAI's own client is counted and closed", async () => {
    const gateway = await startRealtime(await startWebSocketBackend(realtime));
    const openai = new OpenAI({ baseURL: `${gateway.url()}/v1`, apiKey: "none" });
    const { port } = new URL(gateway.url());
    // The client insists on TLS, which is not what this test is about.
    const createConnection = (): Socket => connect(Number(port), "127.0.0.1");
    const session = new OpenAIRealtimeWS({ model: "gpt-realtime", options: { createConnection } }, openai);
    session.socket.on("error", () => undefined);
    await once(session.socket, "open");
    const closed = once(session.socket, "close");
    session.send({ type: "response.create", response: { metadata: { tokens: "200" } } });
    const [code] = (await closed) as [number];
    expect(code).toBe(1008);
  });

  test("gets no compression, which the gateway could not read", async () => {
    const backend = await startWebSocketBackend(realtime);
    const gateway = await startRealtime(backend);
    const client = await openSession(gateway);
    expect(client.extensions).toBe("");
    expect(backend.requests[0]?.headers["sec-websocket-extensions"]).toBeUndefined();
    client.terminate();
  });

  test("gets the name of the provider for its model", async () => {
    const backend = await startWebSocketBackend(realtime);
    const gateway = await startRealtime(backend, undefined, "models: [{ name: fast, as: gpt-realtime-2025 }]");
    (await openSession(gateway, "/v1/realtime?model=fast")).terminate();
    expect(backend.requests.map(({ url }) => url)).toEqual(["/v1/realtime?model=gpt-realtime-2025"]);
    const denied = new WebSocket(urlOf(gateway, "/v1/realtime?model=gpt-realtime-2025"));
    denied.on("error", () => undefined);
    const [, response] = (await once(denied, "unexpected-response")) as [unknown, { statusCode: number }];
    expect(response.statusCode).toBe(404);
  });

  test("without a token limit keeps its extensions and passes unread", async () => {
    const backend = await startWebSocketBackend(realtime);
    const client = await openSession(await startRealtime(backend, "{ requests: 5, unit: Hours }"));
    await respond(client, 1_000);
    expect(backend.requests[0]?.headers["sec-websocket-extensions"]).toContain("permessage-deflate");
    client.terminate();
  });
});

test("a session over HTTP/2 is charged and closed", async () => {
  const gateway = await startRealtime(await startWebSocketBackend(realtime));
  const session = connectHttp2(gateway.url());
  onTestFinished(() => session.destroy());
  await once(session, "remoteSettings");
  const stream = session.request({
    ...{ ":method": "CONNECT", ":protocol": "websocket", ":path": "/v1/realtime?model=gpt-realtime" },
    "sec-websocket-version": "13",
  });
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => void chunks.push(chunk));
  await once(stream, "response");
  // A frame with a mask of zeros.
  const event = Buffer.from('{"type":"response.create","response":{"metadata":{"tokens":"200"}}}');
  stream.write(Buffer.concat([Buffer.from([0x81, 0x80 | event.length, 0, 0, 0, 0]), event]));
  await once(stream, "end");
  expect(Buffer.concat(chunks).subarray(-19).toString()).toBe("rate limit exceeded");
  stream.close();
  await waitFor(() => expect(gateway.records).toHaveLength(1));
  expect(gateway.records[0]).toMatchObject({ httpVersion: "2", reason: "RateLimited", usage: { total: 200 } });
});

test("a place of a limit of requests in progress is free again behind the end of the session", async () => {
  const gateway = await startRealtime(
    await startWebSocketBackend(realtime),
    "{ concurrent: 1 }\n        - { tokens: 100, unit: Hours }",
  );
  const first = await openSession(gateway);
  const statusOf = async (client: WebSocket): Promise<unknown> => {
    client.on("error", () => undefined);
    const [, response] = (await once(client, "unexpected-response")) as [unknown, { statusCode: number }];
    return response.statusCode;
  };
  expect(await statusOf(new WebSocket(urlOf(gateway)))).toBe(429);
  const record = gateway.nextRecord();
  first.close();
  await record;
  (await openSession(gateway)).terminate();
});

describe("a client that leaves during a response", () => {
  /** A provider that ends its response when the test says so. */
  async function startSlow(local?: string) {
    const sockets: WebSocket[] = [];
    const closes: number[] = [];
    const backend = await startWebSocketBackend((socket) => {
      sockets.push(socket);
      socket.on("error", () => undefined);
      socket.on("close", (code) => void closes.push(code));
      socket.on("message", () => {
        socket.send(createdEvent);
        socket.send(JSON.stringify({ type: "response.output_text.delta", delta: "x".repeat(78) }));
      });
    });
    const gateway = await startRealtime(backend, local);
    const client = await openSession(gateway);
    let events = 0;
    client.on("message", () => events++);
    client.send('{"type":"response.create"}');
    await waitFor(() => expect(events).toBe(2));
    return { gateway, client, closes, provider: () => sockets[0] };
  }

  test.each(["close", "terminate"] as const)("by %s is charged what the provider reports", async (leave) => {
    const { gateway, client, closes, provider } = await startSlow();
    const left = once(client, "close");
    client[leave]();
    await left;
    expect(closes).toEqual([]);
    const record = gateway.nextRecord();
    provider()?.send(doneEvent(40));
    expect(await record).toMatchObject({ usage: { total: 40, estimated: false } });
    expect(await remaining(gateway)).toBe(60);
    await waitFor(() => expect(closes).toHaveLength(1));
  });

  test("is charged an estimate when the bound of the time is reached", async () => {
    const { gateway, client } = await startSlow();
    client.terminate();
    const record = gateway.nextRecord();
    await waitFor(() => {
      gateway.clock.advance(60_000);
      expect(gateway.records).toHaveLength(1);
    });
    const { usage } = await record;
    expect(usage).toMatchObject({ estimated: true, output: 20 });
    // The event of the client.
    expect(usage?.input).toBeGreaterThan(0);
  });

  test("is charged an estimate when the provider breaks off", async () => {
    const { gateway, client, provider } = await startSlow();
    const record = gateway.nextRecord();
    provider()?.terminate();
    await once(client, "close");
    expect(await record).toMatchObject({ usage: { estimated: true, output: 20 } });
  });
});

describe("frames", () => {
  const text = (payload: string, first = 0x81): Buffer =>
    Buffer.concat([Buffer.from([first, 126, payload.length >> 8, payload.length & 0xff]), Buffer.from(payload)]);

  /** A provider that sends these bytes after the switch. */
  async function startRaw(bytes: readonly Buffer[], local?: string) {
    const sockets: Duplex[] = [];
    const received: Buffer[] = [];
    const backend = await startUpgradeBackend((_request, socket) => {
      sockets.push(socket);
      socket.on("data", (chunk: Buffer) => void received.push(chunk));
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
      for (const chunk of bytes) socket.write(chunk);
    });
    const gateway = await startRealtime(backend, local);
    const { hostname, port } = new URL(gateway.url());
    const client = connect(Number(port), hostname);
    client.on("error", () => undefined);
    client.write(
      "GET /v1/realtime HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n" +
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let got = Buffer.alloc(0);
    client.on("data", (chunk: Buffer) => {
      got = Buffer.concat([got, chunk]);
    });
    /** The bytes behind the head. */
    const passed = (): Buffer => got.subarray(got.indexOf("\r\n\r\n") + 4);
    return { gateway, client, passed, received, sockets };
  }

  const isClose = (bytes: Buffer, status: number): boolean => bytes.readUInt16BE(bytes.indexOf(0x88) + 2) === status;

  test("of a message in parts, with a ping between them, are charged", async () => {
    const event = doneEvent(30);
    const parts = [text(event.slice(0, 200), 0x01), Buffer.from([0x89, 0]), text(event.slice(200), 0x80)];
    const { gateway, client, passed } = await startRaw(parts);
    await waitFor(() => expect(passed()).toEqual(Buffer.concat(parts)));
    expect(await remaining(gateway)).toBe(70);
    client.destroy();
  });

  test("that come one byte at a time are charged", async () => {
    const event = text(doneEvent(30));
    const { gateway, client, passed } = await startRaw(Array.from(event, (byte) => Buffer.from([byte])));
    await waitFor(() => expect(passed()).toEqual(event));
    expect(await remaining(gateway)).toBe(70);
    client.destroy();
  });

  test("behind the end of the limit do not reach the client", async () => {
    const end = text(doneEvent(200));
    const { gateway, client, passed } = await startRaw([Buffer.concat([end, text("{}".padEnd(200))])]);
    await once(client, "close");
    expect(passed().subarray(0, end.length)).toEqual(end);
    const rest = passed().subarray(end.length);
    expect([rest.length, isClose(rest, 1008)]).toEqual([4 + "rate limit exceeded".length, true]);
    await waitFor(() => expect(gateway.records[0]?.reason).toBe("RateLimited"));
  });

  test("that are compressed although this was not offered close the session", async () => {
    const { gateway, client, passed } = await startRaw([text(doneEvent(30), 0xc1)]);
    await once(client, "close");
    expect(isClose(passed(), 1002)).toBe(true);
    await waitFor(() => expect(gateway.records[0]?.reason).toBe("UpstreamReset"));
  });

  test("of a client that are malformed close the session, and the response in progress is charged what it costs", async () => {
    const { gateway, client, passed, received, sockets } = await startRaw([text(createdEvent), text(doneEvent(30))]);
    await waitFor(() => expect(passed()).toHaveLength(text(createdEvent).length + text(doneEvent(30)).length));
    sockets[0]?.write(text(createdEvent));
    const length = passed().length;
    await waitFor(() => expect(passed().length).toBeGreaterThan(length));
    client.write(text("{}".padEnd(200)));
    await once(client, "close");
    const record = gateway.nextRecord();
    sockets[0]?.write(text(doneEvent(40)));
    expect(await record).toMatchObject({ usage: { total: 70, estimated: false } });
    expect(Buffer.concat(received)).toHaveLength(0);
  });

  test("of a client without a mask close the session, and do not reach the provider", async () => {
    const { client, passed, received, sockets } = await startRaw([]);
    await waitFor(() => expect(sockets).toHaveLength(1));
    client.write(text("{}".padEnd(200)));
    await once(client, "close");
    expect(isClose(passed(), 1002)).toBe(true);
    expect(Buffer.concat(received).includes("{}")).toBe(false);
  });
});

test.each(["Descriptor", "Request", "Kuadrant"])(
  "a session under a global limit with hitsMode %s is charged and closed by the service",
  async (hitsMode) => {
    let counted = 0;
    const hitsOf = ({ request: { hitsAddend, descriptors } }: ReceivedCall): number =>
      descriptors.reduce((sum, { hitsAddend: own }) => sum + Number(own?.value ?? 0), 0) || hitsAddend;
    const service = await startScriptedService((call) => {
      // A check counts 1 in mode Request, and nothing in the others.
      if (call.method !== "CheckRateLimit") counted += hitsOf(call);
      const code = counted > 100 ? "OVER_LIMIT" : "OK";
      return { overallCode: code, statuses: [{ code }] };
    });
    const backend = await startWebSocketBackend(realtime);
    const gateway = await startGateway(
      manifests(
        gatewayManifest(),
        llmManifest(backend),
        routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`]),
        globalPolicy(
          `address: '127.0.0.1:${service.port}', hitsMode: ${hitsMode}, descriptors: [{ unit: Tokens, entries: [{ name: all, expression: route }] }]`,
        ),
      ),
    );
    const client = await openSession(gateway);
    await respond(client, 60);
    const closed = closeOf(client);
    await respond(client, 60);
    expect(await closed).toEqual([1008, "rate limit exceeded"]);
    expect(counted).toBe(hitsMode === "Request" ? 121 : 120);
  },
);

test("a session under a global limit with a reservation holds an estimate until its first response", async () => {
  const hits: number[] = [];
  const service = await startScriptedService(({ request: { hitsAddend, descriptors } }) => {
    hits.push(...descriptors.map(({ hitsAddend: own }) => (own === null ? hitsAddend : Number(own.value))));
    return { overallCode: "OK", statuses: [{ code: "OK" }] };
  });
  const backend = await startWebSocketBackend(realtime);
  const descriptor = "{ unit: Tokens, reserve: Estimate, entries: [{ name: all, expression: route }] }";
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      llmManifest(backend),
      routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`]),
      globalPolicy(`address: '127.0.0.1:${service.port}', descriptors: [${descriptor}]`),
    ),
  );
  const client = await openSession(gateway);
  await respond(client, 1_100);
  await respond(client, 60);
  client.terminate();
  // Without a body and an allowed output, the estimate is 1,024. Each response is followed by a check.
  await waitFor(() => expect(hits.filter((each) => each > 0)).toEqual([1_024, 76, 60]));
});
