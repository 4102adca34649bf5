/** The worker threads as the main thread sees them: real threads, on a fake clock. */
import { once } from "node:events";
import { createServer } from "node:net";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { expect, test, vi } from "vitest";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import { TraceWatches } from "../../proxy/src/app/trace-watches.ts";
import type { WorkerPool } from "../../proxy/src/app/worker-pool.ts";
import { translate } from "../../proxy/src/translate/translate.ts";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  onLoopback,
  policyManifest,
  routeManifest,
} from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { HeldProvider, stream } from "../support/held-provider.ts";
import { packed, startWorkerPool } from "../support/worker-pool.ts";

// Threads start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

function startPool(clock: FakeClock, watches = new TraceWatches(), onBindFailure = vi.fn()): WorkerPool {
  return startWorkerPool(1, clock, {
    onRestart: (worker) => watches.workerDied(worker),
    onBindFailure,
    unclaimedWatches: () => watches.unclaimed(),
    onTraced: (watch, event) => watches.deliver(watch, event),
  });
}

test("a worker that replaces one that died gets the current trace watches", async () => {
  const backend = await startBackend(respondWith(200));
  const port = await freePort();
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const text = manifests(gatewayManifest(port), backendManifest("b", backend.port), route);
  const { resources } = parseManifests([{ path: "all.yaml", text }]);
  const clock = new FakeClock();
  const watches = new TraceWatches();
  const pool = startPool(clock, watches);
  await pool.apply(packed(1, translate(resources, onLoopback)));
  const events: TraceEvent[] = [];
  const ended = Promise.withResolvers<undefined>();
  const condition = 'request.path == "/chosen"';
  const onEnd = (): void => ended.resolve(undefined);
  await watches.watch(pool, 0, { expression: condition, onEvent: (event) => events.push(event), onEnd });

  expect(pool.deaths).toEqual([]);
  await pool.threads[0]?.terminate();
  await expect.poll(() => pool.size).toBe(0);
  const lastMs = clock.nowMs();
  expect(pool.deaths).toEqual([{ worker: 1, count: 1, lastMs, lastCause: "it exited" }]);
  clock.advance(1_000);
  // Its result arrives once it serves.
  await pool.apply(packed(2, translate(resources, onLoopback)));
  for (const path of ["/other", "/chosen"]) await (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  await ended.promise;
  expect(events.map(({ message }) => message)).toContainEqual(
    expect.objectContaining({ type: "requestStarted", path: "/chosen" }),
  );
  expect(events.at(-1)?.message).toMatchObject({ type: "requestFinished", status: 200 });
});

test("the counters of a worker that died remain, and its gauges do not", async () => {
  const backend = await startBackend(respondWith(200));
  const port = await freePort();
  const route = routeManifest("r", [`backendRefs: [${backendRef("b")}]`]);
  const text = manifests(gatewayManifest(port), backendManifest("b", backend.port), route);
  const { resources } = parseManifests([{ path: "all.yaml", text }]);
  const clock = new FakeClock();
  const pool = startPool(clock);
  await pool.apply(packed(1, translate(resources, onLoopback)));
  const metric = async (name: string): Promise<number> => {
    const families = (await pool.metrics()).flat().filter((family) => family.name === name);
    return families.flatMap(({ series }) => series).reduce((sum, { data: [value = 0] }) => sum + value, 0);
  };
  const send = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/`)).text();
  await send();
  expect(await metric("gateway_proxy_http_requests_total")).toBe(1);
  expect(await metric("gateway_proxy_downstream_connections_active")).toBe(1);

  await pool.threads[0]?.terminate();
  await expect.poll(() => pool.size).toBe(0);
  expect(await metric("gateway_proxy_http_requests_total")).toBe(1);
  expect(await metric("gateway_proxy_downstream_connections_active")).toBe(0);
  clock.advance(1_000);
  await pool.apply(packed(2, translate(resources, onLoopback)));
  await send();
  expect(await metric("gateway_proxy_http_requests_total")).toBe(2);
});

test("what the requests of a worker that died hold stays counted", async () => {
  const provider = new HeldProvider();
  const backend = await startBackend(provider.respond);
  const port = await freePort();
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${backend.port} } }
`;
  const route = routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]);
  const entry = "{ tokens: 1000, unit: Hours, reserve: Estimate }";
  const policy = policyManifest("limits", "kind: HTTPRoute, name: chat", [entry]);
  const text = manifests(gatewayManifest(port), llm, route, policy);
  const { resources } = parseManifests([{ path: "all.yaml", text }]);
  const clock = new FakeClock();
  const pool = startPool(clock);
  await pool.apply(packed(1, translate(resources, onLoopback)));
  const body = JSON.stringify({ model: "m", max_tokens: 100, pad: "" });
  const ask = (): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: "POST",
      body: body.replace('""', `"${"x".repeat(400 - body.length)}"`),
    });
  const lost = expect(ask()).rejects.toThrow("fetch failed");
  await provider.next();
  await pool.threads[0]?.terminate();
  await lost;
  await expect.poll(() => pool.size).toBe(0);
  clock.advance(1_000);
  await pool.apply(packed(2, translate(resources, onLoopback)));
  const second = ask();
  stream(await provider.next(), 50, 50);
  const { status, headers } = await second;
  expect([status, headers.get("x-ratelimit-remaining")]).toEqual([200, "600"]);
});

test("a thread counts the tokens of known models for all workers, once it has started", async () => {
  const provider = new HeldProvider();
  const backend = await startBackend(provider.respond);
  const port = await freePort();
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${backend.port} } }
`;
  const route = routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]);
  const entry = "{ tokens: 100000, unit: Hours, reserve: Estimate }";
  const policy = policyManifest("limits", "kind: HTTPRoute, name: chat", [entry]);
  const text = manifests(gatewayManifest(port), llm, route, policy);
  const { resources } = parseManifests([{ path: "all.yaml", text }]);
  const pool = startWorkerPool(2, new FakeClock());
  await pool.apply(packed(1, translate(resources, onLoopback)));
  const url = `http://127.0.0.1:${port}/v1/chat/completions`;
  // 200 tokens, of which bytes say 50.
  const input = "\u0e3f ".repeat(100);
  const body = JSON.stringify({ model: "gpt-4o", max_tokens: 1, messages: [{ role: "user", content: input }] });
  const remaining = async () => Number((await fetch(url, { method: "HEAD" })).headers.get("x-ratelimit-remaining"));
  const holdOf = async (): Promise<number> => {
    const before = await remaining();
    const asked = fetch(url, { method: "POST", body });
    const response = await provider.next();
    const held = before - (await remaining());
    response.destroy();
    await (await asked).text();
    return held;
  };
  const byBytes = Math.ceil(Buffer.byteLength(body) / 4) + 1;
  await expect.poll(holdOf, { timeout: 60_000 }).not.toBe(byBytes);
  expect(await holdOf()).toBeGreaterThan(100);
});

test("a worker that replaces one that died reports an address that it cannot open", async () => {
  const port = await freePort();
  const { resources } = parseManifests([{ path: "all.yaml", text: gatewayManifest(port) }]);
  const clock = new FakeClock();
  const onBindFailure = vi.fn();
  const pool = startPool(clock, undefined, onBindFailure);
  const snapshot = packed(1, translate(resources, onLoopback));
  expect(await pool.apply(snapshot)).toEqual([]);

  await pool.threads[0]?.terminate();
  await expect.poll(() => pool.size).toBe(0);
  const squatter = createServer().listen(port, "127.0.0.1");
  await once(squatter, "listening");
  clock.advance(1_000);
  await waitFor(() => expect(onBindFailure).toHaveBeenCalledOnce(), { timeout: 60_000 });
  expect(await pool.apply(snapshot)).toMatchObject([
    { port, message: expect.stringContaining("EADDRINUSE") as string },
  ]);

  squatter.close();
  await once(squatter, "close");
  expect(await pool.apply(snapshot)).toEqual([]);
  expect(onBindFailure).toHaveBeenCalledOnce();
});

test("a port of another proxy process is not shared, and is opened when that process has ended", async () => {
  const port = await freePort();
  const { resources } = parseManifests([{ path: "all.yaml", text: gatewayManifest(port) }]);
  const snapshot = packed(1, translate(resources, onLoopback));
  const first = startWorkerPool(2, new FakeClock());
  expect(await first.apply(snapshot)).toEqual([]);
  // Its own workers share the port, and later ones too.
  expect(await first.apply(packed(2, translate(resources, onLoopback)))).toEqual([]);

  const second = startWorkerPool(2, new FakeClock());
  const message = expect.stringContaining("EADDRINUSE") as string;
  expect(await second.apply(snapshot)).toMatchObject([{ port, message }]);
  await first.drain(AbortSignal.abort());
  expect(await second.apply(snapshot)).toEqual([]);
});
