/** The memory for request bodies: the behaviour when all of it is used, and that it is freed. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { BodyBudget, createBodyMemory } from "../../proxy/src/pipeline/body/body-budget.ts";
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
import { openFrom } from "../support/proxied-client.ts";

const mib = 1024 * 1024;

/** A gateway whose bodies have 4 MiB, with an LLM backend for `/v1` and another one for all other paths. */
async function start(rule = "") {
  const held = { bytes: 0 };
  const backend = await startBackend((request, response) => {
    let bytes = 0;
    if (request.url === "/begins" || request.headers["x-begins"] !== undefined) response.writeHead(200).write("begun");
    if (request.headers["x-never"] !== undefined) {
      request.on("data", (chunk: Buffer) => (held.bytes += chunk.length));
      return;
    }
    request.on("data", (chunk: Buffer) => (bytes += chunk.length)).on("end", () => response.end(String(bytes)));
  });
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: { model: m } }, host: 127.0.0.1, port: ${backend.port} } }
`;
  const rules = [
    `{ matches: [{ path: { type: PathPrefix, value: /v1 } }], ${rule} backendRefs: [${backendRef("llm")}] }`,
    `{ backendRefs: [${backendRef("b")}] }`,
  ];
  const all = manifests(gatewayManifest(), llm, backendManifest("b", backend.port), routeManifest("r", rules));
  const bodies = new BodyBudget(createBodyMemory(1), 1, 4 * mib);
  const gateway = await startGateway(all, {
    bodies,
    expectsProxyHeader: true,
    streamIdleTimeoutMs: 300_000,
    contendedStreamIdleTimeoutMs: 3_000,
  });
  return { gateway, bodies, backend, held };
}

/** Sends a completion of `mebibytes` without its last byte. */
async function withhold(
  gateway: TestGateway,
  bodies: BodyBudget,
  mebibytes: number,
  address = "10.0.0.1",
): Promise<Socket> {
  const bytes = Math.floor(mebibytes * mib);
  const socket = openFrom(gateway, address, "").socket;
  const before = bodies.heldBytes;
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`);
  socket.write(Buffer.alloc(bytes - 1, " "));
  await expect.poll(() => bodies.heldBytes - before).toBeGreaterThanOrEqual(bytes - 16 * 1024);
  return socket;
}

/** Sends a request and reads until the gateway closes the connection. */
async function send(gateway: TestGateway, request: string, address = "10.0.0.1"): Promise<string> {
  const socket = openFrom(gateway, address, "").socket;
  const [head = "", ...rest] = request.split("\r\n\r\n");
  socket.write(`${head}\r\nHost: a\r\nConnection: close\r\n\r\n${rest.join("\r\n\r\n")}`);
  const chunks: Buffer[] = [];
  for await (const chunk of socket as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** @returns the response. */
function complete(gateway: TestGateway, bytes = 100, address?: string): Promise<string> {
  const body = JSON.stringify({ messages: [], pad: "x".repeat(bytes) });
  const head = `POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
  return send(gateway, `${head}\r\n\r\n${body}`, address);
}

const ok = /^HTTP\/1\.1 200 /;
const full = /^HTTP\/1\.1 503 /;
const post = (body: string): string => `POST / HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

test("a body that must be buffered gets 503 while others use all memory, and their end frees it", async () => {
  const { gateway, bodies, backend } = await start();
  const first = await withhold(gateway, bodies, 1.7);
  const second = await withhold(gateway, bodies, 1.2, "10.0.0.2");
  expect(await complete(gateway, 100, "10.0.0.3")).toMatch(ok);
  const response = await complete(gateway, mib, "10.0.0.3");
  expect(response).toMatch(full);
  expect(response).toMatch(/\r\nretry-after: 1\r\n[^]*\r\n\r\ntoo many request bodies at once$/i);
  expect(gateway.records.at(-1)).toMatchObject({ status: 503, reason: "BodyMemoryFull", attempts: 0 });
  expect(backend.requests).toHaveLength(1);
  first.destroy();
  second.destroy();
  await expect.poll(() => bodies.heldBytes).toBe(0);
  expect(await complete(gateway, mib)).toMatch(ok);
  await expect.poll(() => bodies.heldBytes).toBe(0);
});

test("while memory is short, a client with its share gets no more, and others do", async () => {
  const { gateway, bodies } = await start();
  await withhold(gateway, bodies, 2.7);
  await withhold(gateway, bodies, 0.35, "10.0.0.3");
  expect(await send(gateway, post("small"))).toMatch(full);
  expect(await complete(gateway, 100_000)).toMatch(full);
  expect(await send(gateway, post("small"), "10.0.0.2")).toMatch(ok);
  expect(await complete(gateway, 100_000, "10.0.0.2")).toMatch(ok);
  expect(await complete(gateway, 400_000, "10.0.0.2")).toMatch(ok);
});

test("small bodies have a reserve that larger ones of any client cannot use", async () => {
  const { gateway, bodies } = await start();
  await withhold(gateway, bodies, 2.9);
  await withhold(gateway, bodies, 0.4, "10.0.0.2");
  expect(await complete(gateway, 400_000, "10.0.0.3")).toMatch(full);
  expect(await send(gateway, post("small"), "10.0.0.3")).toMatch(ok);
  expect(await complete(gateway, 60_000, "10.0.0.3")).toMatch(ok);
});

test("a body that need not be buffered is forwarded completely without this memory", async () => {
  const { gateway, bodies } = await start();
  await withhold(gateway, bodies, 2.9);
  await withhold(gateway, bodies, 0.4, "10.0.0.2");
  const chunks = "3e8\r\n".concat("x".repeat(1_000), "\r\n").repeat(100);
  const streamed = await send(gateway, `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`);
  expect(streamed).toMatch(/^HTTP\/1\.1 200 [^]*100000/);
  // A small body of known length is read completely first.
  expect(await send(gateway, post("small"))).toMatch(full);
  expect(await send(gateway, "GET / HTTP/1.1\r\n\r\n")).toMatch(ok);
});

test("stalled uploads are ended soon once memory is short, and not before", async () => {
  const { gateway, bodies } = await start();
  const first = await withhold(gateway, bodies, 1.6);
  gateway.clock.advance(10_000);
  gateway.clock.advance(10_000);
  expect(gateway.records).toEqual([]);
  const second = await withhold(gateway, bodies, 1.3, "10.0.0.2");
  const third = await withhold(gateway, bodies, 0.3, "10.0.0.3");
  const ended = [first, second, third].map((socket) => once(socket, "data"));
  for (let i = 0; i < 12; i++) gateway.clock.advance(375);
  for (const [response] of (await Promise.all(ended)) as [Buffer][]) {
    expect(String(response)).toMatch(/^HTTP\/1\.1 408 /);
  }
  await expect.poll(() => bodies.heldBytes).toBe(0);
});

test("a body is not kept for a retry once the response has begun", async () => {
  const { gateway, bodies } = await start();
  const socket = openFrom(gateway, "10.0.0.1", "").socket;
  socket.write("POST /begins HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
  await once(socket, "data");
  expect(gateway.dataPlane.endpoints().map(({ pending }) => pending)).toContain(1);
  expect(bodies.heldBytes).toBe(0);
});

const completion = (fields: string): string => {
  const body = JSON.stringify({ messages: [], pad: "x".repeat(mib) });
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n${fields}\r\n${body}`;
};

test("an edited body is not kept once it is sent and no retry can follow", async () => {
  const { gateway, bodies, held } = await start();
  openFrom(gateway, "10.0.0.1", completion("x-never: yes\r\n"));
  await expect.poll(() => held.bytes).toBeGreaterThan(mib);
  await expect.poll(() => bodies.heldBytes).toBe(0);
  expect(gateway.dataPlane.endpoints().map(({ pending }) => pending)).toContain(1);
});

test("an edited body is kept while a retry may follow, until the response begins", async () => {
  const { gateway, bodies, held } = await start("retry: { codes: [503], attempts: 1 },");
  const client = openFrom(gateway, "10.0.0.1", completion("x-never: yes\r\n"));
  await expect.poll(() => held.bytes).toBeGreaterThan(mib);
  expect(bodies.heldBytes).toBeGreaterThan(mib);
  client.socket.destroy();
  await expect.poll(() => bodies.heldBytes).toBe(0);
  const begun = openFrom(gateway, "10.0.0.1", completion("x-never: yes\r\nx-begins: yes\r\n"));
  await expect.poll(begun.text).toContain("begun");
  expect(bodies.heldBytes).toBe(0);
});

test("the memory of a worker that died is freed", () => {
  const memory = createBodyMemory(2);
  const [main, dead, other] = [0, 1, 2].map((worker) => new BodyBudget(memory, worker, mib));
  expect(dead?.openShare("a").growTo(800_000)).toBe(true);
  const share = other?.openShare("a");
  // The client has its share, in the other worker.
  expect(share?.growTo(10_000)).toBe(false);
  expect(other?.openShare("b").growTo(500_000)).toBe(false);
  main?.releaseOf(1);
  expect(share?.growTo(800_000)).toBe(true);
  expect(share?.growTo(900_000)).toBe(false);
  share?.close();
  expect(main?.heldBytes).toBe(0);
});
