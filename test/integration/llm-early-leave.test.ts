/**
 * Clients that disconnect before the end of the response, under a token limit: the proxy reads the rest of the response
 * for its usage, within bounds, and estimates it beyond them.
 */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest, startGateway } from "../support/gateway.ts";
import type { TestGateway, TestGatewayOptions } from "../support/gateway.ts";

const tokenLimit = 10_000_000;
const tokens = [`{ tokens: ${tokenLimit}, unit: Hours }`];
const usage = { prompt_tokens: 100_000, completion_tokens: 8, total_tokens: 100_008 };
const piece = `data: ${JSON.stringify({ choices: [{ delta: { content: "x".repeat(40) } }] })}\n\n`;
const lastPieces = `data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`;

/** A request that the provider received. */
interface ReceivedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface Scene {
  readonly gateway: TestGateway;
  /** The next request that was received completely. */
  readonly received: () => Promise<ReceivedRequest>;
  /** Sends a completion on a new connection. */
  readonly send: (body: string, announcedBytes?: number) => Socket;
  /** The tokens that were charged. */
  readonly charged: () => Promise<number>;
}

async function start(local = tokens, options: TestGatewayOptions = {}, rule = ""): Promise<Scene> {
  const arrived: ReceivedRequest[] = [];
  const waiting: ((received: ReceivedRequest) => void)[] = [];
  const { port } = await startBackend((request, response) => {
    if (request.url === "/nothing") {
      response.end("{}");
      return;
    }
    request.resume().on("end", () => {
      const next = waiting.shift();
      if (next === undefined) arrived.push({ request, response });
      else next({ request, response });
    });
  });
  const backend = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${port} } }
`;
  const route = routeManifest("chat", [
    `{ backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]${rule} }`,
  ]);
  const policies = local.length === 0 ? [] : [policyManifest("limits", "kind: HTTPRoute, name: chat", local)];
  const gateway = await startGateway(manifests(gatewayManifest(), backend, route, ...policies), options);
  return {
    gateway,
    received: () => {
      const next = arrived.shift();
      return next === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(next);
    },
    send: (body, announcedBytes = body.length) => {
      const { hostname, port } = new URL(gateway.url());
      const socket = connect(Number(port), hostname);
      onTestFinished(() => void socket.destroy());
      socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: ${announcedBytes}\r\n\r\n${body}`);
      return socket;
    },
    charged: async () => {
      const { headers } = await fetch(`${gateway.url()}/nothing`);
      return tokenLimit - Number(headers.get("x-ratelimit-remaining"));
    },
  };
}

const streamed = `{"stream":true,"prompt":"${"x".repeat(400_000)}"}`;
const plain = `{"prompt":"${"x".repeat(40_000)}"}`;

/** Resolves when the proxy reads this number of abandoned responses. */
function abandoned({ gateway }: Scene, responses: number): Promise<void> {
  return expect.poll(() => gateway.clock.pendingTimers).toBe(responses);
}

test("a stream whose client disconnects at its last piece is charged the usage that the provider then reports", async () => {
  const scene = await start();
  const client = scene.send(streamed);
  const { response } = await scene.received();
  response.writeHead(200, { "content-type": "text/event-stream" }).write(piece);
  await once(client, "data");
  const record = scene.gateway.nextRecord();
  client.destroy();
  await abandoned(scene, 1);
  response.end(lastPieces);
  expect(await record).toMatchObject({
    reason: "ClientDisconnect",
    usage: { input: 100_000, total: 100_008, estimated: false },
  });
  expect(await scene.charged()).toBe(100_008);
  expect(scene.gateway.clock.pendingTimers).toBe(0);
});

test("a response whose client disconnected before it began is charged the reported usage", async () => {
  const scene = await start();
  const client = scene.send(plain);
  const { response } = await scene.received();
  const record = scene.gateway.nextRecord();
  client.destroy();
  await abandoned(scene, 1);
  response.end(JSON.stringify({ choices: [], usage }));
  expect(await record).toMatchObject({
    reason: "ClientDisconnect",
    status: 0,
    usage: { total: 100_008, estimated: false },
  });
  expect(await scene.charged()).toBe(100_008);
});

test("so is a response whose stream was reset in HTTP/2", async () => {
  const scene = await start();
  const session = connectHttp2(scene.gateway.url());
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":method": "POST", ":path": "/v1/chat/completions" });
  stream.on("error", () => undefined);
  stream.end(plain);
  const { response } = await scene.received();
  const record = scene.gateway.nextRecord();
  stream.close(8);
  await abandoned(scene, 1);
  response.end(JSON.stringify({ choices: [], usage }));
  expect((await record).usage?.total).toBe(100_008);
});

describe("beyond a bound the response is closed and estimated, with a quarter of a token for each byte:", () => {
  const inputOf = (body: string): number => Math.ceil(body.length / 4);

  test("the time, of a response that never begins", async () => {
    const scene = await start();
    const client = scene.send(plain);
    const { request } = await scene.received();
    const record = scene.gateway.nextRecord();
    client.destroy();
    await abandoned(scene, 1);
    const closed = new Promise((resolve) => request.socket.once("close", resolve));
    scene.gateway.clock.advance(60_000);
    await closed;
    expect((await record).usage).toEqual({ input: inputOf(plain), total: inputOf(plain), estimated: true });
    expect(await scene.charged()).toBe(inputOf(plain));
  });

  test.each(["request: 2s", "request: 9s, backendRequest: 2s"])("the rule's own timeouts (%s)", async (timeouts) => {
    const scene = await start(tokens, {}, `, timeouts: { ${timeouts} }`);
    const client = scene.send(plain);
    await scene.received();
    scene.gateway.clock.advance(1_500);
    const record = scene.gateway.nextRecord();
    client.destroy();
    // The rule's timer runs before, and the bound's timer replaces it.
    const { dataPlane } = scene.gateway;
    await expect.poll(() => dataPlane.tasks().some(({ detail }) => detail?.["connections"] === 0)).toBe(true);
    await abandoned(scene, 1);
    scene.gateway.clock.advance(499);
    expect(scene.gateway.clock.pendingTimers).toBe(1);
    scene.gateway.clock.advance(1);
    expect(await record).toMatchObject({ reason: "ClientDisconnect", usage: { estimated: true } });
  });

  test("the bytes, of a stream that does not end", async () => {
    const scene = await start(tokens, { abandonedResponses: { timeoutMs: 60_000, maxBytes: 1_000, maxResponses: 10 } });
    const client = scene.send(streamed);
    const { request, response } = await scene.received();
    response.writeHead(200, { "content-type": "text/event-stream" }).write(piece);
    await once(client, "data");
    const record = scene.gateway.nextRecord();
    client.destroy();
    await abandoned(scene, 1);
    const closed = new Promise((resolve) => request.socket.once("close", resolve));
    response.write(piece.repeat(20));
    await closed;
    const usageOfRecord = (await record).usage;
    // The usage option that the proxy added is no part of the input.
    expect(usageOfRecord).toMatchObject({ input: inputOf(streamed), estimated: true });
    expect(usageOfRecord?.output).toBe(21 * 10);
    expect(scene.gateway.clock.pendingTimers).toBe(0);
  });

  test.each([
    ["their number", { timeoutMs: 60_000, maxBytes: 1_000, maxResponses: 0 }],
    ["a time of 0", { timeoutMs: 0, maxBytes: 1_000, maxResponses: 10 }],
  ])("%s, at once", async (_bound, abandonedResponses) => {
    const scene = await start(tokens, { abandonedResponses });
    const client = scene.send(plain);
    const { request } = await scene.received();
    const record = scene.gateway.nextRecord();
    const closed = new Promise((resolve) => request.socket.once("close", resolve));
    client.destroy();
    await closed;
    expect((await record).usage?.total).toBe(inputOf(plain));
  });

  test("a shutdown, after a few seconds", async () => {
    const scene = await start();
    const client = scene.send(plain);
    await scene.received();
    const record = scene.gateway.nextRecord();
    client.destroy();
    await abandoned(scene, 1);
    let isDrained = false;
    const drained = scene.gateway.dataPlane.drain().then(() => {
      isDrained = true;
    });
    // The drain shortens the time once the connections are closed.
    await expect.poll(() => scene.gateway.dataPlane.tasks().length).toBe(0);
    expect(isDrained).toBe(false);
    scene.gateway.clock.advance(5_000);
    await drained;
    expect((await record).usage?.total).toBe(inputOf(plain));
  });

  test("the rule's timeout, with the 504", async () => {
    const scene = await start(tokens, {}, ", timeouts: { request: 2s }");
    const client = scene.send(plain);
    await scene.received();
    scene.gateway.clock.advance(2_000);
    const [response] = (await once(client, "data")) as [Buffer];
    expect(response.toString()).toContain("504");
    expect(response.toString()).toContain(`x-ratelimit-remaining: ${tokenLimit - inputOf(plain)}`);
  });

  test("the rule's timeout for one attempt", async () => {
    const scene = await start(tokens, {}, ", timeouts: { backendRequest: 2s }");
    const client = scene.send(plain);
    await scene.received();
    scene.gateway.clock.advance(2_000);
    const [response] = (await once(client, "data")) as [Buffer];
    expect(response.toString()).toContain("504");
    expect(await scene.charged()).toBe(inputOf(plain));
  });
});

describe("nothing is charged", () => {
  test("and the attempt is closed at once if no limit counts tokens", async () => {
    const scene = await start(["{ requests: 1000, unit: Hours }"]);
    const client = scene.send(plain);
    const { request } = await scene.received();
    const closed = new Promise((resolve) => request.socket.once("close", resolve));
    client.destroy();
    await closed;
    expect(scene.gateway.clock.pendingTimers).toBe(0);
  });

  test("for a request that was not sent completely", async () => {
    const scene = await start();
    const client = scene.send(plain, plain.length + 1);
    const record = scene.gateway.nextRecord();
    await expect.poll(() => scene.gateway.dataPlane.tasks()[0]?.children[0]?.children.length).toBe(1);
    client.destroy();
    expect((await record).usage).toBeUndefined();
    const socket = scene.send("{}");
    const { response } = await scene.received();
    response.end("{}");
    await once(socket, "data");
    // Of the second request, which is estimated.
    expect(await scene.charged()).toBe(1);
  });

  test("for a backend that closes the connection before its response", async () => {
    const scene = await start();
    const client = scene.send(plain);
    const { request } = await scene.received();
    const record = scene.gateway.nextRecord();
    client.destroy();
    await abandoned(scene, 1);
    request.socket.destroy();
    expect((await record).usage).toBeUndefined();
    expect(await scene.charged()).toBe(0);
  });

  test("for a response without generated text", async () => {
    const scene = await start();
    const { gateway } = scene;
    const reply = fetch(`${gateway.url()}/v1/messages/count_tokens`, { method: "POST", body: plain });
    const { response } = await scene.received();
    response.end('{"input_tokens":10000}');
    await (await reply).text();
    expect(gateway.records[0]).toMatchObject({ usageUnread: "absent" });
    expect(await scene.charged()).toBe(0);
  });
});

test("a generated response that reports no usage is estimated", async () => {
  const scene = await start();
  const client = scene.send(streamed);
  const { response } = await scene.received();
  response.writeHead(200, { "content-type": "text/event-stream" }).write(piece);
  await once(client, "data");
  const record = scene.gateway.nextRecord();
  response.end("data: [DONE]\n\n");
  expect((await record).usage).toEqual({ input: 100_007, output: 10, total: 100_017, estimated: true });
});
