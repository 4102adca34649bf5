/**
 * Mixed traffic while the configuration changes five times a second: no request fails, and memory and sockets do not
 * grow.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { others } from "../../faults/support/fault.ts";
import { startLoad } from "../../faults/support/load.ts";
import { startBackendProcess } from "../../faults/support/servers.ts";
import { startWorld, worldManifests } from "../../faults/support/world.ts";
import { policyManifest } from "../../support/gateway.ts";
import { hardeningSeconds } from "../support/fuzz.ts";
import { openFiles, residentBytes } from "../support/process-size.ts";

const seconds = Math.max(hardeningSeconds ?? 0, 20);
const editsPerSecond = 5;
const maxGrowthBytes = 64 * 1024 * 1024;

test.skipIf(process.platform !== "linux")(
  "memory and sockets do not grow",
  { timeout: (seconds + 120) * 1_000 },
  async () => {
    const backend = await startBackendProcess();
    const options = (edit: number) => ({
      backend: backend.port,
      policies: [
        policyManifest("p", "kind: HTTPRoute, name: chat", [
          `{ requests: ${1_000_000 + (edit % 2)}, unit: Hours, key: 'request.headers["x-user"]' }`,
        ]),
      ],
      rule: `filters: [{ type: ResponseHeaderModifier, responseHeaderModifier: { set: [{ name: x-edit, value: "${edit}" }] } }]`,
    });
    const { proxy, port } = await startWorld(options(0));
    const { pid } = proxy;
    const idleFiles = openFiles(pid);
    const headers = (number: number) => ({ "x-user": `user-${number % 5_000}` });
    const load = { port: () => port, perSecond: 100, headers };
    const loads = [startLoad(load), startLoad({ ...load, protocol: "http2" })];

    let warmBytes = 0;
    const edits = seconds * editsPerSecond;
    for (let edit = 1; edit <= edits; edit++) {
      await proxy.write("all.yaml", worldManifests(port, options(edit)));
      await sleep(1_000 / editsPerSecond);
      // By then the code is compiled and the pools are full.
      if (edit === Math.floor(edits / 2)) warmBytes = residentBytes(pid);
    }
    const grownBytes = residentBytes(pid) - warmBytes;
    const outcomes = (await Promise.all(loads.map((it) => it.stop()))).flat();

    console.log(
      `soak of reloads: ${outcomes.length} requests, ${edits} edits, ${(grownBytes / 2 ** 20).toFixed(0)} MiB more`,
    );
    expect(others(outcomes, "200")).toEqual([]);
    expect(grownBytes).toBeLessThan(maxGrowthBytes);
    // Connections to the backend may be open; those of clients are closed.
    await expect.poll(() => openFiles(pid) - idleFiles).toBeLessThan(70);
  },
);
