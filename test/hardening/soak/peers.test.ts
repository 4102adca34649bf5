/**
 * Good clients beside others that reset, stop, close one side or are slow, and a backend that does the same: no request
 * of the good ones fails, and no memory, socket or request remains.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { others } from "../../faults/support/fault.ts";
import { startLoad } from "../../faults/support/load.ts";
import { startBackendProcess } from "../../faults/support/servers.ts";
import { backendManifest, backendRef, gatewayManifest, manifests, routeManifest } from "../../support/gateway.ts";
import { freePort } from "../../support/free-port.ts";
import { startProxy } from "../../support/proxy-process.ts";
import { hardeningSeconds } from "../support/fuzz.ts";
import { startMisbehavingBackend } from "../support/misbehaving-backend.ts";
import { misbehavingClients } from "../support/misbehaving-clients.ts";
import { openFiles, residentBytes } from "../support/process-size.ts";

const seconds = Math.max(hardeningSeconds ?? 0, 20);
const clientsPerSecond = 40;
const maxGrowthBytes = 64 * 1024 * 1024;
/** Connections that the proxy keeps to its backends. */
const maxKeptConnections = 100;

test.skipIf(process.platform !== "linux")(
  "nothing remains of clients and backends that misbehave",
  { timeout: (seconds + 120) * 1_000 },
  async () => {
    const [backend, misbehaving] = [await startBackendProcess(), await startMisbehavingBackend()];
    const port = await freePort();
    const good = `{ matches: [{ path: { value: /good } }], backendRefs: [${backendRef("good")}] }`;
    const bad = `{ backendRefs: [${backendRef("bad")}] }`;
    const all = [
      gatewayManifest(port),
      backendManifest("good", backend.port),
      backendManifest("bad", misbehaving.port),
      routeManifest("all", [good, bad]),
    ];
    const proxy = await startProxy({ "all.yaml": manifests(...all) }, ["--workers", "2", "--access-log", "off"]);
    const active = async (what: string): Promise<number> => {
      const text = await (await fetch(`${proxy.stats}/metrics`)).text();
      const samples = text.split("\n").filter((line) => line.startsWith(`gateway_proxy_${what}_active{`));
      return samples.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
    };
    const idleFiles = openFiles(proxy.pid);
    const load = { port: () => port, perSecond: 100, path: () => "/good" };
    const loads = [startLoad(load), startLoad({ ...load, protocol: "http2" })];

    const clients = [...misbehavingClients.values()];
    const running = new Set<Promise<void>>();
    let warmBytes = 0;
    const count = seconds * clientsPerSecond;
    for (let number = 0; number < count; number++) {
      const client = clients[number % clients.length]?.(port);
      if (client !== undefined) {
        running.add(client);
        void client.finally(() => running.delete(client));
      }
      await sleep(1_000 / clientsPerSecond);
      // By then the code is compiled and the pools are full.
      if (number === Math.floor(count / 2)) warmBytes = residentBytes(proxy.pid);
    }
    await Promise.all(running);
    const grownBytes = residentBytes(proxy.pid) - warmBytes;
    const outcomes = (await Promise.all(loads.map((it) => it.stop()))).flat();

    console.log(
      `soak of peers: ${outcomes.length} requests, ${count} clients, ${(grownBytes / 2 ** 20).toFixed(0)} MiB more`,
    );
    expect(others(outcomes, "200")).toEqual([]);
    await expect.poll(() => active("http_requests")).toBe(0);
    await expect.poll(() => active("downstream_connections")).toBe(0);
    await expect.poll(() => openFiles(proxy.pid) - idleFiles).toBeLessThan(maxKeptConnections);
    expect(proxy.stderr()).toBe("");
    expect(grownBytes).toBeLessThan(maxGrowthBytes);
  },
);
