/** Clients that try to use a provider uncounted by WebSocket, or by asking for a switch to it. */
import { once } from "node:events";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { startBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import {
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
} from "../support/gateway.ts";
import { globalPolicy } from "../support/global-policy.ts";
import { startScriptedService } from "../support/rate-limit-service.ts";
import { rawHttp } from "../support/raw-http.ts";
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
import { requestUpgrade, startUpgradeBackend, startWebSocketBackend } from "../support/upgrades.ts";

test("a session carries the key of the Backend, and none of the client", async () => {
  const backend = await startWebSocketBackend(realtime);
  const secret = `
apiVersion: v1
kind: Secret
metadata: { name: key, namespace: default }
stringData: { apiKey: sk-of-the-operator }
`;
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      secret,
      llmManifest(backend, "auth: { secretRef: { name: key } }"),
      routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`]),
    ),
  );
  const client = new WebSocket(urlOf(gateway), ["realtime", "openai-insecure-api-key.of-the-client"]);
  client.on("error", () => undefined);
  await once(client, "open");
  expect(backend.requests[0]?.headers).toMatchObject({
    authorization: "Bearer sk-of-the-operator",
    "sec-websocket-protocol": "realtime",
  });
  client.terminate();
});

describe("a client that leaves before its response begins", () => {
  /** A provider that responds when the test says so. */
  async function startIdle() {
    const sockets: WebSocket[] = [];
    let requests = 0;
    const backend = await startWebSocketBackend((socket) => {
      sockets.push(socket);
      socket.on("error", () => undefined);
      socket.on("message", () => requests++);
    });
    const gateway = await startRealtime(backend);
    const client = await openSession(gateway);
    const create = `{"type":"response.create","response":{"instructions":"${"x".repeat(120)}"}}`;
    return { gateway, client, create, requests: () => requests, provider: () => sockets[0] };
  }

  test.each(["close", "terminate"] as const)("by %s is charged what the provider reports", async (leave) => {
    const { gateway, client, create, requests, provider } = await startIdle();
    client.send(create);
    if (leave === "terminate") await waitFor(() => expect(requests()).toBe(1));
    const left = once(client, "close");
    client[leave]();
    await left;
    await waitFor(() => expect(requests()).toBe(1));
    const record = gateway.nextRecord();
    provider()?.send(createdEvent);
    provider()?.send(doneEvent(40));
    expect(await record).toMatchObject({ usage: { total: 40, estimated: false } });
    expect(await remaining(gateway)).toBe(60);
  });

  test("is charged an estimate if it does not begin", async () => {
    const { gateway, client, create, requests } = await startIdle();
    client.send(create);
    await waitFor(() => expect(requests()).toBe(1));
    client.terminate();
    const record = gateway.nextRecord();
    await waitFor(() => {
      gateway.clock.advance(60_000);
      expect(gateway.records).toHaveLength(1);
    });
    const { usage } = await record;
    expect(usage?.estimated).toBe(true);
    expect(usage?.input).toBeGreaterThanOrEqual(30);
  });

  test.each(["before", "behind"])(
    "is charged although it has sent an event that is rejected %s the request",
    async (place) => {
      const { gateway, client, create, requests, provider } = await startIdle();
      for (const event of place === "before" ? ["{}", create] : [create, create]) client.send(event);
      await waitFor(() => expect(requests()).toBe(2));
      const rejected = once(client, "message");
      provider()?.send('{"type":"error","error":{"code":"invalid"}}');
      await rejected;
      client.close();
      await once(client, "close");
      const record = gateway.nextRecord();
      provider()?.send(createdEvent);
      provider()?.send(doneEvent(40));
      expect(await record).toMatchObject({ usage: { total: 40, estimated: false } });
    },
  );

  test("is charged each response that it has requested, although the provider makes one after the other", async () => {
    const { gateway, client, create, requests, provider } = await startIdle();
    for (let count = 0; count < 3; count++) client.send(create);
    client.close();
    await once(client, "close");
    await waitFor(() => expect(requests()).toBe(3));
    for (const left of [60, 40, 30]) {
      const before = await remaining(gateway);
      provider()?.send(createdEvent);
      provider()?.send(doneEvent(before - left));
      await waitFor(async () => expect(await remaining(gateway)).toBe(left));
    }
    const sessions = () => gateway.records.map(({ usage }) => usage?.total);
    await waitFor(() => expect(sessions()).toContain(70));
  });

  test("is charged nothing if the provider has rejected it", async () => {
    const { gateway, client, create, requests, provider } = await startIdle();
    client.send(create);
    await waitFor(() => expect(requests()).toBe(1));
    const rejected = once(client, "message");
    provider()?.send('{"type":"error","error":{"code":"invalid"}}');
    await rejected;
    const record = gateway.nextRecord();
    client.terminate();
    expect((await record).usage).toBeUndefined();
  });
});

test("a transcription that is billed by its duration is charged an estimate", async () => {
  const backend = await startWebSocketBackend((socket) => {
    const type = "conversation.item.input_audio_transcription.completed";
    socket.on("message", () => {
      socket.send(JSON.stringify({ type, transcript: "x".repeat(38), usage: { type: "duration", seconds: 3 } }));
    });
  });
  const gateway = await startRealtime(backend);
  const client = await openSession(gateway, "/v1/realtime?intent=transcription");
  const completed = once(client, "message");
  client.send('{"type":"input_audio_buffer.append","audio":"AAAA"}');
  await completed;
  expect(await remaining(gateway)).toBe(100 - 30 - 10);
  client.terminate();
});

describe("a client that leaves", () => {
  const openAi = "conversation.item.input_audio_transcription";
  /** A second of audio, which costs 10 tokens. */
  const audio = JSON.stringify({ type: "input_audio_buffer.append", audio: "A".repeat(64_000) });

  /** A session whose client leaves after it has got the text of an event. */
  async function leaveAfter(event: object) {
    const sockets: WebSocket[] = [];
    const backend = await startWebSocketBackend((socket) => {
      sockets.push(socket);
      socket.on("error", () => undefined);
      socket.on("message", () => socket.send(JSON.stringify(event)));
    });
    const gateway = await startRealtime(backend);
    const client = await openSession(gateway, "/v1/realtime?intent=transcription");
    const received = once(client, "message");
    client.send(audio);
    await received;
    client.close();
    await once(client, "close");
    return { gateway, provider: sockets[0] };
  }

  test.each<readonly [string, object]>([
    ["a transcription of OpenAI", { type: `${openAi}.delta`, item_id: "one", delta: "x".repeat(38) }],
    ["one of vLLM", { type: "transcription.delta", delta: "x".repeat(38) }],
    ["one of Mistral", { type: "transcription.text.delta", text: "x".repeat(38) }],
    [
      "a response of which the server does not say that it begins",
      { type: "response.text.delta", delta: "x".repeat(38) },
    ],
  ])("before the end of %s is charged an estimate", async (_, event) => {
    const { gateway } = await leaveAfter(event);
    await waitFor(() => {
      gateway.clock.advance(60_000);
      expect(gateway.records).toHaveLength(1);
    });
    expect(gateway.records[0]?.usage).toMatchObject({ output: 10, estimated: true });
    expect(gateway.records[0]?.usage?.input).toBeGreaterThanOrEqual(10);
  });

  test("never is charged for the parts of a transcription, and the rest by its report", async () => {
    const backend = await startWebSocketBackend((socket) => {
      socket.on("message", (data: Buffer) => socket.send(data));
    });
    const gateway = await startRealtime(backend, "{ tokens: 5000, unit: Hours }");
    const client = await openSession(gateway, "/v1/realtime?intent=transcription");
    const pass = async (event: object): Promise<void> => {
      const received = once(client, "message");
      client.send(JSON.stringify(event));
      await received;
    };
    const part = { type: "transcription.delta", delta: "x".repeat(2_400) };
    await pass(part);
    expect(await remaining(gateway)).toBe(5_000);
    await pass(part);
    await waitFor(async () => expect(await remaining(gateway)).toBe(5_000 - 1_201));
    const usage = { prompt_tokens: 1_000, completion_tokens: 1_500, total_tokens: 2_500 };
    await pass({ type: "transcription.done", text: "", usage });
    await waitFor(async () => expect(await remaining(gateway)).toBe(2_500));
    const closed = closeOf(client);
    for (let count = 0; count < 8; count++) client.send(JSON.stringify(part));
    expect(await closed).toEqual([1_008, "rate limit exceeded"]);
  });

  test("a translation, which reports nothing, is charged an estimate of its audio and its text", async () => {
    const { gateway, provider } = await leaveAfter({ type: "session.output_audio.delta", delta: "A".repeat(63_998) });
    const record = gateway.nextRecord();
    provider?.send(JSON.stringify({ type: "session.output_transcript.delta", delta: "x".repeat(38) }));
    provider?.send('{"type":"session.closed"}');
    expect((await record).usage).toEqual({ input: 11, output: 20 + 10, total: 41, estimated: true });
  });

  test("before the end of a transcription is charged what the provider reports", async () => {
    const { gateway, provider } = await leaveAfter({ type: `${openAi}.delta`, item_id: "one", delta: "Hello" });
    const record = gateway.nextRecord();
    const usage = { type: "tokens", total_tokens: 48, input_tokens: 38, output_tokens: 10 };
    provider?.send(JSON.stringify({ type: `${openAi}.completed`, item_id: "one", transcript: "Hello", usage }));
    expect(await record).toMatchObject({ usage: { total: 48, estimated: false } });
  });
});

describe("the model of a session", () => {
  const tokens = "{ tokens: 100, unit: Hours }";
  const prices = "prices: { cheap: { input: '1', output: '1' }, dear: { input: '100', output: '100' } }";

  async function startModels(ai: string, path: string, local?: string) {
    const messages: string[] = [];
    const backend = await startWebSocketBackend((socket) => {
      socket.on("error", () => undefined);
      socket.on("message", (data: Buffer) => messages.push(String(data)));
    });
    const gateway = await startRealtime(backend, local, ai);
    return { gateway, messages, client: await openSession(gateway, path) };
  }

  test.each<readonly [title: string, ai: string, path: string, event: string, local: string]>([
    [
      "a prescribed one",
      "models: [{ name: cheap }]",
      "/v1/realtime?model=cheap",
      '{"type":"response.create","model":"dear"}',
      tokens,
    ],
    [
      "one of a list",
      "models: [{ name: cheap }]",
      "/v1/responses",
      '{"type":"response.create","model":"dear"}',
      tokens,
    ],
    [
      "one with a price",
      prices,
      "/v1/realtime?model=cheap",
      '{"type":"session.update","session":{"model":"dear"}}',
      "{ spend: '1', unit: Hours }",
    ],
  ])("cannot be left by an event: %s", async (_, ai, path, event, local) => {
    const { client, messages } = await startModels(ai, path, local);
    const closed = closeOf(client);
    client.send('{"type":"session.update","session":{"model":"cheap"}}');
    await waitFor(() => expect(messages).toHaveLength(1));
    client.send(event);
    expect(await closed).toEqual([1008, "another model than that of the session"]);
    expect(messages).toHaveLength(1);
  });

  test("cannot be left by an event whose last byte comes late", async () => {
    const received: Buffer[] = [];
    const backend = await startUpgradeBackend((_request, socket) => {
      socket.on("data", (chunk: Buffer) => void received.push(chunk));
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    });
    const gateway = await startRealtime(backend, undefined, "models: [{ name: cheap }]");
    const { socket } = await requestUpgrade(gateway.url(), "websocket", "", "/v1/realtime?model=cheap");
    const event = Buffer.from('{"type":"response.create","model":"dear"}');
    const frame = Buffer.concat([Buffer.from([0x81, 0x80 | event.length, 0, 0, 0, 0]), event]);
    socket.write(frame.subarray(0, -1));
    await waitFor(() => expect(Buffer.concat(received)).toEqual(frame.subarray(0, -1)));
    socket.write(frame.subarray(-1));
    await once(socket, "close");
    await waitFor(() => expect(gateway.records).toHaveLength(1));
    expect(Buffer.concat(received)).toHaveLength(frame.length - 1);
    expect(gateway.records[0]?.reason).toBe("BadRequest");
  });

  test("is that of the provider to which the session has moved, and so is its price", async () => {
    const backend = await startWebSocketBackend(realtime);
    const provider = (name: string, port: number, price: number): string => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: ${name}, namespace: default }
spec: { ai: { provider: { openai: { model: ${name} } }, host: 127.0.0.1, port: ${port}, upgrades: Allow, prices: { ${name}: { input: '${price}', output: '${price}' } } } }
`;
    const list = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { providers: [{ backendRef: { name: cheap } }, { backendRef: { name: dear }, priority: 1 }] } }
`;
    const limit = policyManifest("limits", "kind: HTTPRoute, name: chat", ["{ spend: '1', unit: Hours }"]);
    const route = routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`]);
    const providers = [provider("cheap", await freePort(), 1), provider("dear", backend.port, 100)];
    const gateway = await startGateway(manifests(gatewayManifest(), list, ...providers, route, limit));
    const client = await openSession(gateway, "/v1/realtime");
    await respond(client, 10);
    const closed = closeOf(client);
    client.send('{"type":"session.update","session":{"model":"cheap"}}');
    expect(await closed).toEqual([1008, "another model than that of the session"]);
    await waitFor(() => expect(gateway.records[0]?.usage).toMatchObject({ total: 10, cost: 1_000 }));
  });

  test("may be any that the Backend does not prescribe, list or price", async () => {
    const { client, messages } = await startModels("", "/v1/realtime?model=cheap");
    client.send('{"type":"response.create","model":"dear"}');
    await waitFor(() => expect(messages).toHaveLength(1));
    client.terminate();
  });
});

test.each(["websocket", "tunnel/1"])("a POST with `Upgrade: %s` is treated like one without", async (protocol) => {
  const { port, requests } = await startBackend((_request, response) => response.end("{}"));
  const gateway = await startRealtime({ port }, undefined, "", { upgradeProtocols: ["websocket", "tunnel/1"] });
  const paths = ["/v1/realtime/client_secrets", "/v1/batches/b/cancel", "/v1/fine_tuning/jobs/j/resume", "/v1/other"];
  const statuses = paths.map(async (path) => {
    const fields = `host: a\r\nconnection: upgrade\r\nupgrade: ${protocol}\r\ncontent-length: 0\r\n`;
    return [path, (await rawHttp(gateway.url(), `POST ${path} HTTP/1.1\r\n${fields}\r\n`)).status];
  });
  // Cancelling is free.
  expect(await Promise.all(statuses)).toEqual(paths.map((path) => [path, path.endsWith("cancel") ? 200 : 400]));
  expect(requests).toHaveLength(1);
});

test("a provider that ends more responses than any other is closed, and others keep their charges", async () => {
  const backend = await startWebSocketBackend((socket) => {
    socket.on("error", () => undefined);
    socket.on("message", () => {
      for (let at = 0; at < 3_000; at++) socket.send(doneEvent(3));
    });
  });
  const gateway = await startRealtime(backend, "{ tokens: 100000, unit: Hours }");
  const client = await openSession(gateway);
  const closed = closeOf(client);
  client.send("{}");
  expect(await closed).toEqual([1002, "too many responses"]);
  await waitFor(() => expect(gateway.records[0]).toMatchObject({ reason: "UpstreamReset", usage: { total: 3_003 } }));
  expect(await remaining(gateway)).toBe(100_000 - 3_003);
});

test("a session with many short responses asks the service once at a time", async () => {
  const responses = 50;
  let decisions = 0;
  let charged = 0;
  const service = await startScriptedService(({ request: { hitsAddend, descriptors } }) => {
    const hits = descriptors.reduce((sum, { hitsAddend: own }) => sum + Number(own?.value ?? hitsAddend), 0);
    if (hits === 0) decisions++;
    charged += hits;
    return { overallCode: "OK", statuses: [{ code: "OK" }] };
  });
  const backend = await startWebSocketBackend((socket) => {
    socket.on("message", () => {
      for (let at = 0; at < responses; at++) socket.send(doneEvent(10));
    });
  });
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      llmManifest(backend),
      routeManifest("chat", [`{ backendRefs: [${backendRef("llm")}] }`]),
      globalPolicy(
        `address: '127.0.0.1:${service.port}', descriptors: [{ unit: Tokens, entries: [{ name: all, expression: route }] }]`,
      ),
    ),
  );
  const client = await openSession(gateway);
  let received = 0;
  client.on("message", () => received++);
  client.send("{}");
  await waitFor(() => expect([received, charged]).toEqual([responses, 10 * responses]));
  client.terminate();
  // That of the session, and those for the responses that come while one is awaited.
  expect(decisions).toBeLessThan(responses / 2);
});
