/** The proxy itself: shutdowns, the loss of a worker, many edits. */
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { expect, test } from "vitest";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import { translate } from "../../proxy/src/translate/translate.ts";
import { onLoopback, policyManifest } from "../support/gateway.ts";
import { freePort } from "../support/free-port.ts";
import { type ProxyProcess } from "../support/proxy-process.ts";
import { packed, startWorkerPool } from "../support/worker-pool.ts";
import { figuresOf, others, under } from "./support/fault.ts";
import { startLoad } from "./support/load.ts";
import { rate } from "./support/rate.ts";
import { startBackendProcess } from "./support/servers.ts";
import { startWorld, worldManifests } from "./support/world.ts";

/** As a load balancer: polls the readiness page until it is not ready. */
async function untilUnready({ readiness }: ProxyProcess): Promise<void> {
  while ((await fetch(`${readiness}/healthz/ready`).catch(() => undefined))?.status === 200) await sleep(50);
}

for (const [protocol, name] of [
  ["http1", "HTTP/1.1"],
  ["http2", "HTTP/2"],
] as const) {
  test(`SIGTERM, 20 times, clients of ${name}`, async ({ task }) => {
    const backend = await startBackendProcess();
    let serving = await startWorld({ backend: backend.port });
    const load = startLoad({ protocol, perSecond: rate, port: () => serving.port });
    for (let times = 0; times < 20; times++) {
      const leaving = serving;
      const next = await startWorld({ backend: backend.port });
      await load.after(rate);
      leaving.proxy.kill("SIGTERM");
      await untilUnready(leaving.proxy);
      serving = next;
      expect(await leaving.proxy.exited).toBe(0);
    }
    const outcomes = await load.stop();
    task.meta.figures = figuresOf(outcomes);
    expect(others(outcomes, "200")).toEqual([]);
  });
}

test("1,000 edits of the configuration at 50 a second", async ({ task }) => {
  const backend = await startBackendProcess();
  const limit = 1_000_000;
  const policy = policyManifest("p", "kind: HTTPRoute, name: chat", [`{ requests: ${limit}, unit: Hours }`]);
  const header = (edit: number): string =>
    `filters: [{ type: ResponseHeaderModifier, responseHeaderModifier: { set: [{ name: x-edit, value: "${edit}" }] } }]`;
  const options = (edit: number) => ({ backend: backend.port, policies: [policy], rule: header(edit) });
  const { proxy, port } = await startWorld(options(0));
  let inForceMs = 0;
  const send = () => fetch(`http://127.0.0.1:${port}/`);
  const seen = await under({
    port: () => port,
    async inject() {
      const beganMs = performance.now();
      for (let edit = 1; edit <= 1_000; edit++) {
        await proxy.write("all.yaml", worldManifests(port, options(edit)));
        await sleep(Math.max(0, beganMs + edit * 20 - performance.now()));
      }
      const writtenMs = performance.now();
      await expect.poll(async () => (await send()).headers.get("x-edit"), { timeout: 30_000 }).toBe("1000");
      inForceMs = performance.now() - writtenMs;
    },
    lastsMs: 0,
  });
  // The requests of the test itself count too.
  const before = Number((await send()).headers.get("x-ratelimit-remaining"));
  const reload = `the last edit takes effect after ${(inForceMs / 1_000).toFixed(1)} s`;
  task.meta.figures = seen.figures(`${limit - before} counted; ${reload}`);
  expect(others(seen.outcomes, "200")).toEqual([]);
  // No edit has lost a count: every request of the load, and at least one of the test itself.
  expect(limit - before).toBeGreaterThan(seen.outcomes.length);
});

test("a worker thread that dies", async ({ task }) => {
  const backend = await startBackendProcess();
  const port = await freePort();
  const limit = 1_000_000;
  const policy = policyManifest("p", "kind: HTTPRoute, name: chat", [`{ requests: ${limit}, unit: Hours }`]);
  const { resources } = parseManifests([
    { path: "all.yaml", text: worldManifests(port, { backend: backend.port, policies: [policy] }) },
  ]);
  // In this process, where the test can end a thread.
  const pool = startWorkerPool(2, systemClock);
  await pool.apply(packed(1, translate(resources, onLoopback)));
  const seen = await under({
    port: () => port,
    async inject() {
      await pool.threads[0]?.terminate();
    },
    lastsMs: 0,
  });
  const remaining = Number((await fetch(`http://127.0.0.1:${port}/`)).headers.get("x-ratelimit-remaining"));
  const counted = limit - remaining - 1;
  const served = seen.outcomes.filter(({ status }) => status === 200).length;
  task.meta.figures = seen.figures(`${served} allowed and served; ${counted} counted`);
  // Requests in progress in the thread are lost with its connections; the other thread continues.
  expect(others(seen.outcomes, "200", "ECONNRESET", "200, body cut off", "ECONNREFUSED")).toEqual([]);
  expect(task.meta.figures.recoveredMs).toBeLessThan(10_000);
  // The counters are in shared memory: counts are neither lost nor doubled.
  expect(counted).toBeGreaterThanOrEqual(served);
  expect(counted).toBeLessThanOrEqual(seen.outcomes.length);
});
