/** The memory for request bodies: what happens when they have all of it, and that it is given back. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { BodyBudget, createBodyMemory } from "../../proxy/src/server/body-budget.ts";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

const mib = 1024 * 1024;

/** A gateway whose bodies have 4 MiB, with an LLM backend for `/v1` and another one for all else. */
async function start() {
  const backend = await startBackend((request, response) => {
    let bytes = 0;
    request.on("data", (chunk: Buffer) => (bytes += chunk.length)).on("end", () => response.end(String(bytes)));
  });
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: { model: m } }, host: 127.0.0.1, port: ${backend.port} } }
`;
  const rules = [
    `{ matches: [{ path: { type: PathPrefix, value: /v1 } }], backendRefs: [${backendRef("llm")}] }`,
    `{ backendRefs: [${backendRef("b")}] }`,
  ];
  const all = manifests(gatewayManifest(), llm, backendManifest("b", backend.port), routeManifest("r", rules));
  const bodies = new BodyBudget(createBodyMemory(1), 1, 4 * mib);
  const gateway = await startGateway(all, {
    bodies,
    streamIdleTimeoutMs: 300_000,
    contendedStreamIdleTimeoutMs: 3_000,
  });
  return { gateway, bodies, backend };
}

/** Sends a completion of `bytes` without its last byte. */
async function withhold(gateway: TestGateway, bodies: BodyBudget, bytes: number): Promise<Socket> {
  const { hostname, port } = new URL(gateway.url());
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  const before = bodies.heldBytes;
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`);
  socket.write(Buffer.alloc(bytes - 1, " "));
  await expect.poll(() => bodies.heldBytes - before).toBeGreaterThanOrEqual(bytes - 16 * 1024);
  return socket;
}

const complete = (gateway: TestGateway, bytes = 100): Promise<Response> =>
  fetch(`${gateway.url()}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ messages: [], pad: "x".repeat(bytes) }),
  });

test("a body that must be held gets 503 while others have all, and the memory comes back with their end", async () => {
  const { gateway, bodies, backend } = await start();
  const first = await withhold(gateway, bodies, 2 * mib);
  const second = await withhold(gateway, bodies, 2 * mib - 32 * 1024);
  expect((await complete(gateway)).status).toBe(200);
  const refused = await complete(gateway, mib);
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
  expect(await refused.text()).toBe("too many request bodies at once");
  expect(gateway.records.at(-1)).toMatchObject({ status: 503, reason: "BodyMemoryFull", calls: 0 });
  expect(backend.requests).toHaveLength(1);
  first.destroy();
  second.destroy();
  await expect.poll(() => bodies.heldBytes).toBe(0);
  expect((await complete(gateway, mib)).status).toBe(200);
  await expect.poll(() => bodies.heldBytes).toBe(0);
});

test("a body that need not be held goes on without memory, and is whole", async () => {
  const { gateway, bodies } = await start();
  await withhold(gateway, bodies, 4 * mib);
  const body = new ReadableStream({
    start(controller) {
      for (let i = 0; i < 20; i++) controller.enqueue(new Uint8Array(1_000));
      controller.close();
    },
  });
  const streamed = await fetch(gateway.url(), { method: "POST", body, duplex: "half" });
  expect([streamed.status, await streamed.text()]).toEqual([200, "20000"]);
  // A small one of known length is read whole first.
  expect((await fetch(gateway.url(), { method: "POST", body: "small" })).status).toBe(503);
  expect((await fetch(gateway.url())).status).toBe(200);
});

test("a body that is edited is charged as it is sent, and refused where that is too much", async () => {
  const { gateway, bodies, backend } = await start();
  const padded = (bytes: number): string => `{"stream":true,"x":"${"x".repeat(bytes - 23)}"}`;
  const ask = (bytes: number) => {
    return fetch(`${gateway.url()}/v1/chat/completions`, { method: "POST", body: padded(bytes) });
  };
  // A model and options are added.
  const refused = await ask(4 * mib);
  expect([refused.status, await refused.text()]).toEqual([503, "too many request bodies at once"]);
  expect(backend.requests).toHaveLength(0);
  expect((await ask(4 * mib - 200)).status).toBe(200);
  await expect.poll(() => bodies.heldBytes).toBe(0);
});

test("uploads that stand still are ended soon once memory gets tight, and not before", async () => {
  const { gateway, bodies } = await start();
  const first = await withhold(gateway, bodies, 2 * mib);
  gateway.clock.advance(10_000);
  gateway.clock.advance(10_000);
  expect(gateway.records).toEqual([]);
  const second = await withhold(gateway, bodies, 2 * mib);
  const ended = [once(first, "data"), once(second, "data")];
  for (let i = 0; i < 12; i++) gateway.clock.advance(375);
  for (const [answer] of (await Promise.all(ended)) as [Buffer][]) expect(String(answer)).toMatch(/^HTTP\/1\.1 408 /);
  await expect.poll(() => bodies.heldBytes).toBe(0);
});

test("what a worker that died has held is free again", () => {
  const memory = createBodyMemory(2);
  const [main, dead, other] = [0, 1, 2].map((worker) => new BodyBudget(memory, worker, mib));
  expect(dead?.openShare().growTo(700_000)).toBe(true);
  const share = other?.openShare();
  expect(share?.growTo(300_000)).toBe(true);
  expect(share?.growTo(600_000)).toBe(false);
  main?.releaseOf(1);
  expect(share?.growTo(600_000)).toBe(true);
  share?.close();
  expect(main?.heldBytes).toBe(0);
});
