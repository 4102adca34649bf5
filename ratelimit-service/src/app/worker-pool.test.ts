import { once } from "node:events";
import { createServer } from "node:net";
import { credentials } from "@grpc/grpc-js";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { Logs } from "@gatewayproxy/runtime/log";
import { parseLogFilter } from "@gatewayproxy/runtime/log-filter";
import { afterEach, expect, test } from "vitest";
import { ConfigSet } from "../config/config-set.ts";
import { readServiceSettings } from "../settings.ts";
import { createStoreMemory, MemoryTables } from "../store/memory-tables.ts";
import { RateLimitClient } from "../transport/grpc/testing/grpc-clients.ts";
import { WorkerPool } from "./worker-pool.ts";

const text = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 1000}\n";
const limits = new ConfigSet(false).update([{ key: "a.yaml", file: "a.yaml", text }]);

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function createPool(workers: number, port = 0) {
  const read = await readServiceSettings({ argv: [], env: { LOG_LEVEL: "off", WORKERS: String(workers) } });
  const filter = parseLogFilter("info");
  if (!read.ok || !filter.ok) throw new Error("settings");
  const lines: string[] = [];
  const logs = new Logs({
    filter: filter.value,
    clock: systemClock,
    destination: { write: (line) => lines.push(line) },
  });
  const counterMemory = createStoreMemory(1_024);
  const pool = new WorkerPool({
    workers,
    start: { settings: read.value, counterMemory, refunds: new Int32Array(new SharedArrayBuffer(4)) },
    host: "127.0.0.1",
    port,
    counters: new MemoryTables(counterMemory, 1),
    clock: systemClock,
    log: logs.logger("test"),
  });
  closers.push(() => pool.close(0));
  pool.postConfig(limits);
  return { pool, lines };
}

async function start(workers: number) {
  const { pool, lines } = await createPool(workers);
  return { pool, lines, port: await pool.listen() };
}

/** The rest of the limit after one more call, on a connection of its own. */
function ask(port: number): Promise<number | undefined> {
  const options = { "grpc.use_local_subchannel_pool": 1 };
  const client = new RateLimitClient(`127.0.0.1:${port}`, credentials.createInsecure(), options);
  const request = { domain: "d", descriptors: [{ entries: [{ key: "k", value: "v" }] }] };
  return new Promise((resolve) => {
    client.shouldRateLimit(request, (_, response) => {
      client.close();
      resolve(response?.statuses[0]?.limitRemaining);
    });
  });
}

test("workers serve one port with one set of counters, and tell what each has counted", async () => {
  const { pool, port } = await start(2);
  const left = await Promise.all(Array.from({ length: 30 }, () => ask(port)));
  const stats = await pool.collectStats();

  expect([...left].sort((a = 0, b = 0) => b - a)).toEqual(Array.from({ length: 30 }, (_, index) => 999 - index));
  expect(stats).toHaveLength(2);
  expect(stats.reduce((sum, { callTimes }) => sum + callTimes.calls, 0)).toBe(30);
});

test("a worker that dies is replaced, with the configuration and the counters, and what it has counted stays", {
  timeout: 20_000,
}, async () => {
  const { pool, port, lines } = await start(1);
  const calls = async (): Promise<number> => {
    const stats = await pool.collectStats();
    return stats.reduce((sum, { callTimes }) => sum + callTimes.calls, 0);
  };
  await ask(port);
  expect(await calls()).toBe(1);
  await pool.threads[0]?.terminate();

  expect(await calls()).toBe(1);
  await expect.poll(() => ask(port)).toBe(998);
  expect(await calls()).toBe(2);
  expect(lines.some((line) => line.includes("worker died"))).toBe(true);
});

test("a port that is in use is reported", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  closers.push(() => other.close());
  await once(other, "listening");
  const address = other.address();
  const { pool } = await createPool(2, typeof address === "object" && address !== null ? address.port : 0);

  await expect(pool.listen()).rejects.toThrow("EADDRINUSE");
});
