/**
 * One client with as many open requests as possible: the proxy's memory stays bounded, and other clients are served.
 */
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { memoryPlan } from "../../../proxy/src/app/memory-plan.ts";
import { startWorld, type World, type WorldOptions } from "../../faults/support/world.ts";
import { startBackend } from "../../support/backend.ts";
import { memoryCgroup } from "../../support/memory-cgroup.ts";
import { policyManifest } from "../../support/gateway.ts";
import { hardeningSeconds } from "../support/fuzz.ts";
import { clientPreface, endHeaders, endStream, frame, frameType } from "../../support/raw-http2.ts";

const mib = 1024 * 1024;
const budgetMib = 64;
/**
 * Beyond the budget. Most of it is garbage: Node keeps a stream that was reset until a full garbage collection. Without
 * a bound the streams of these clients use 800 to 1,300 MiB, and pending HTTP/1 requests 1,900 MiB.
 */
const marginBytes = 640 * mib;
/** The memory limit of a proxy that the controller creates. */
const containerBytes = 1_024 * mib;
/**
 * The duration of the longest attack. Without the bound on the memory of ended requests, the kernel kills the process
 * after some 70 s. A run with short fuzzers has a quarter of it, in which the memory grows, too.
 */
const attackSeconds = Math.min(Math.max(10 * (hardeningSeconds ?? 0), 20), 80);

function residentBytes({ proxy }: World): number {
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${proxy.pid}/status`, "utf8")) ?? [];
  return Number(kibibytes) * 1024;
}

/**
 * A gateway whose backend never responds to `/held`, and that responds with 429 to all but one request without
 * `x-user`.
 */
async function start(args: readonly string[], options: Pick<WorldOptions, "workers" | "cgroup"> = {}): Promise<World> {
  const backend = await startBackend((request, response) => {
    if (request.url !== "/held") response.end("ok");
  });
  const limit = `{ requests: 1, unit: Hours, key: 'request.headers["x-user"]' }`;
  const policies = [policyManifest("p", "kind: HTTPRoute, name: chat", [limit])];
  return startWorld({ backend: backend.port, policies, args, ...options });
}

/** From one address each, a hundred at a time. */
async function openMany(
  { port }: World,
  count: number,
  bytesOf: (number: number) => Buffer,
): Promise<readonly Socket[]> {
  const sockets: Socket[] = [];
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  for (let i = 1; i <= count; i++) {
    const socket = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.9" });
    socket.on("error", () => undefined).resume();
    socket.write(bytesOf(i));
    sockets.push(socket);
    if (i % 100 === 0) await sleep(50);
  }
  return sockets;
}

/** A hundred requests for `path` of a client that reads no response. */
function withoutReading(path: string): Buffer {
  const head = Buffer.concat([Buffer.from([0x82, 0x86, 0x41, 0x01, 0x61, 0x04, path.length]), Buffer.from(path)]);
  const streams = Array.from({ length: 100 }, (_, i) =>
    frame(frameType.headers, endHeaders | endStream, 2 * i + 1, head),
  );
  const noWindow = frame(frameType.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]));
  return Buffer.concat([Buffer.from(clientPreface), noWindow, ...streams]);
}

/** Requests after one that the backend never responds to. */
function afterHeld(number: number, count: number): Buffer {
  const held = `GET /held HTTP/1.1\r\nHost: a\r\nx-user: ${number}\r\n\r\n`;
  return Buffer.from(held + "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count));
}

const begun = (world: World): Promise<number> => world.metric("gateway_proxy_http_requests_total");
const active = (world: World): Promise<number> => world.metric("gateway_proxy_http_requests_active");
const shed = async (world: World): Promise<number> =>
  (await world.metric("gateway_proxy_downstream_connections_shed_total")) +
  (await world.metric("gateway_proxy_http_requests_total", 'reason="HeadMemoryFull"'));

async function isServed({ port }: World): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { "x-user": "another" } });
  expect(response.status).toBe(200);
}

test.skipIf(hardeningSeconds === undefined || process.platform !== "linux").each([
  {
    name: "HTTP/2 responses that it does not read",
    connections: 1_500,
    bytes: () => withoutReading("/"),
    isShed: true,
  },
  {
    name: "rejected HTTP/2 requests whose responses it does not read",
    connections: 1_500,
    bytes: () => withoutReading("/%zz"),
    // They wait for no window, so nothing is kept.
    isShed: false,
  },
  {
    name: "HTTP/1 requests after a pending one",
    connections: 1_200,
    bytes: (number: number) => afterHeld(number, 2_000),
    isShed: true,
  },
])("$name", { timeout: 300_000 }, async ({ connections, bytes, isShed }) => {
  const world = await start(["--max-client-memory", String(budgetMib)]);
  await isServed(world);
  const before = residentBytes(world);
  await openMany(world, connections, bytes);
  if (isShed) await expect.poll(() => shed(world), { timeout: 20_000 }).toBeGreaterThan(0);
  // Until everything that was received is parsed.
  for (let last = -1, now = await begun(world); now !== last; [last, now] = [now, await begun(world)]) {
    await sleep(1_000);
  }
  expect(residentBytes(world) - before).toBeLessThan(budgetMib * mib + marginBytes);
});

/** Streams without end, from one address, on as many connections as possible: for each closed one it opens another. */
async function attackFor(world: World, seconds: number, connections: number): Promise<void> {
  let isOver = false;
  const sockets = new Set<Socket>();
  const open = (): void => {
    if (isOver) return;
    const socket = connect({ port: world.port, host: "127.0.0.1", localAddress: "127.0.0.9" });
    sockets.add(socket);
    socket.on("error", () => undefined).resume();
    socket.on("close", () => {
      sockets.delete(socket);
      setTimeout(open, 1);
    });
    socket.write(withoutReading("/"));
  };
  const end = (): void => {
    isOver = true;
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(end);
  for (let i = 1; i <= connections; i++) {
    open();
    if (i % 100 === 0) await sleep(50);
  }
  await sleep(seconds * 1_000);
  end();
}

test.skipIf(hardeningSeconds === undefined || process.platform !== "linux")(
  "a proxy under the container's memory limit survives one client that opens streams for minutes, with the default bounds",
  { timeout: 300_000 },
  async () => {
    const cgroup = memoryCgroup(containerBytes);
    const { workers, bodyBytes, clientBytes } = memoryPlan(64, containerBytes);
    // The bounds that the limit gives, for machines without such a group.
    const args = ["--max-client-memory", String(clientBytes / mib), "--max-body-memory", String(bodyBytes / mib)];
    const world = await start(args, { workers, cgroup: cgroup?.path });
    let peakBytes = 0;
    const watch = setInterval(() => (peakBytes = Math.max(peakBytes, residentBytes(world))), 500);
    onTestFinished(() => clearInterval(watch));
    await attackFor(world, attackSeconds, 4_000);
    expect(await shed(world)).toBeGreaterThan(0);
    await isServed(world);
    expect(peakBytes).toBeLessThan(containerBytes);
    console.log(`peak of the resident set: ${Math.round(peakBytes / mib)} MiB, of the group: ${cgroup?.peakBytes()}`);
  },
);

test("the default bound allows 100 streams on each of 200 connections", { timeout: 300_000 }, async () => {
  const world = await start([]);
  await openMany(world, 200, () => withoutReading("/"));
  await expect.poll(() => active(world), { timeout: 120_000 }).toBeGreaterThan(19_990);
  expect(await shed(world)).toBe(0);
});
