/** `--state-dir`: counters that outlive the process, however it ends. */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import { gatewayManifest, manifests, policyManifest, routeManifest } from "../support/gateway.ts";
import { HeldProvider, stream } from "../support/held-provider.ts";
import { savedUntilMs, startLife, startLoad, stateDirectory, usedUnits } from "../support/mortal-proxy.ts";
import { spawnProxy, startProxy } from "../support/proxy-process.ts";

test("SIGTERM under load loses nothing", async () => {
  const directory = await stateDirectory();
  const first = await startLife(directory);
  const load = startLoad(first);
  await expect.poll(() => load.completed(), { timeout: 30_000 }).toBeGreaterThan(500);
  first.proxy.kill("SIGTERM");
  expect(await first.proxy.exited).toBe(0);
  await load.ended;
  const used = await usedUnits(await startLife(directory));
  for (const [at, { sent, completed }] of load.counts(Infinity).entries()) {
    expect(used[at]).toBeGreaterThanOrEqual(completed);
    expect(used[at]).toBeLessThanOrEqual(sent);
  }
}, 120_000);

test("SIGKILL at any moment under load loses nothing that was saved", async () => {
  const directory = await stateDirectory();
  let life = await startLife(directory);
  let before = await usedUnits(life);
  for (let kill = 0; kill < 3; kill++) {
    const load = startLoad(life);
    const target = 200 + Math.random() * 800;
    let savedMs = await savedUntilMs(life);
    for (const firstMs = savedMs; load.completed() < target || savedMs === firstMs; ) {
      savedMs = await savedUntilMs(life);
    }
    life.proxy.kill("SIGKILL");
    await life.proxy.exited;
    await load.ended;
    life = await startLife(directory);
    const used = await usedUnits(life);
    for (const [at, { sent, completed }] of load.counts(savedMs).entries()) {
      // The requests of `usedUnits` are counted, too, and may be lost as any other.
      expect(used[at]).toBeGreaterThanOrEqual((before[at] ?? 0) + completed);
      expect(used[at]).toBeLessThanOrEqual((before[at] ?? 0) + 1 + sent);
    }
    before = used;
  }
}, 240_000);

test("a budget in money of a sliding window is the same afterwards, with what killed requests hold", async () => {
  const directory = await stateDirectory();
  const provider = new HeldProvider();
  const backend = await startBackend(provider.respond);
  const port = await freePort();
  const prices = "prices: { m: { input: '1', output: '2' } }";
  const llm = `
apiVersion: gatewayproxy.dev/v1alpha1
kind: Backend
metadata: { name: llm, namespace: default }
spec: { ai: { provider: { openai: {} }, host: 127.0.0.1, port: ${backend.port}, ${prices} } }
`;
  const route = routeManifest("chat", ["backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: llm }]"]);
  const entry = "{ spend: '0.01', unit: Hours, window: Sliding, reserve: Estimate }";
  const policy = policyManifest("limits", "kind: HTTPRoute, name: chat", [entry]);
  const files = { "all.yaml": manifests(gatewayManifest(port), llm, route, policy) };
  const args = ["--state-dir", directory, "--workers", "1", "--access-log", "off", "--drain-delay", "0ms"];
  const url = `http://127.0.0.1:${port}/v1/chat/completions`;
  const body = JSON.stringify({ model: "m", max_tokens: 100, stream: true, pad: "" });
  // 400 bytes are 100 tokens.
  const ask = () => fetch(url, { method: "POST", body: body.replace('""', `"${"x".repeat(400 - body.length)}"`) });
  const remaining = async () => (await fetch(url, { method: "HEAD" })).headers.get("x-ratelimit-remaining");

  const first = await startProxy(files, args);
  const served = ask();
  stream(await provider.next(), 100, 50);
  await (await served).text();
  expect(await remaining()).toBe("9800");
  first.kill("SIGTERM");
  expect(await first.exited).toBe(0);

  const second = await startProxy(files, args);
  expect(await remaining()).toBe("9800");
  const killed = expect(ask()).rejects.toThrow("fetch failed");
  await provider.next();
  expect(await remaining()).toBe("9500");
  const heldMs = Date.now();
  await expect.poll(() => savedUntilMs({ proxy: second, url }), { timeout: 30_000 }).toBeGreaterThan(heldMs);
  second.kill("SIGKILL");
  await second.exited;
  await killed;

  await startProxy(files, args);
  expect(await remaining()).toBe("9500");
}, 120_000);

describe("a directory that cannot be used", () => {
  const files = async () => ({ "all.yaml": gatewayManifest(await freePort()) });

  test("by a second process is named, and the second does not start", async () => {
    const directory = await stateDirectory();
    await startLife(directory);
    const second = await spawnProxy(await files(), ["--state-dir", directory]);
    expect(await second.exited).toBe(1);
    expect(second.stderr()).toContain(`--state-dir: another process uses "${directory}"; each needs its own`);
  }, 60_000);

  test("since it is a file is named", async () => {
    const path = join(await stateDirectory(), "file");
    await writeFile(path, "");
    const proxy = await spawnProxy(await files(), ["--state-dir", path]);
    expect(await proxy.exited).toBe(1);
    expect(proxy.stderr()).toContain(`--state-dir: cannot keep counters in "${path}"`);
  }, 60_000);

  test.skipIf(process.getuid?.() === 0)(
    "since it is not permitted is named",
    async () => {
      const directory = join(await stateDirectory(), "closed");
      await mkdir(directory);
      await chmod(directory, 0o500);
      const proxy = await spawnProxy(await files(), ["--state-dir", directory]);
      expect(await proxy.exited).toBe(1);
      expect(proxy.stderr()).toMatch(/--state-dir: cannot keep counters in ".*EACCES/);
    },
    60_000,
  );
});
